// Starts OpenID providers for the tests: node provider.mjs FOLDER, where FOLDER has node_modules. It reads the
// providers from its first line of standard input, prints a line for each that answers, and ends with its input.
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'

console.warn = console.info = () => {}
const { Provider } = await import(`${process.argv[2]}/node_modules/oidc-provider/lib/index.js`)

function start({ issuer, clients, jwks, port = 0 }) {
  // Which account the next login chooses, and what is known of accounts.
  let account = 'ann'
  const claims = {}
  // How the account signs in: its level (acr) and its methods (amr).
  let strength = {}
  const provider = new Provider(issuer, {
    clients,
    jwks,
    cookies: { keys: ['for tests only'] },
    acrValues: ['urn:test:two-factors'],
    claims: { acr: null, openid: ['sub', 'amr'], profile: ['preferred_username'], email: ['email', 'email_verified'], groups: ['groups'] },
    scopes: ['openid', 'profile', 'email', 'groups'],
    // The provider calls the node of the test, which listens on loopback.
    fetch: (url, { dispatcher: _, ...options }) => fetch(url, options),
    features: { devInteractions: { enabled: false }, backchannelLogout: { enabled: true } },
    interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id, ...claims[id] }) }),
    async loadExistingGrant(ctx) {
      const { client, session, provider: of } = ctx.oidc
      const grant = new of.Grant({ clientId: client.clientId, accountId: session.accountId })
      grant.addOIDCScope('openid profile email groups')
      await grant.save()
      return grant
    },
  })
  const answer = provider.callback()
  const server = createServer(async (req, res) => {
    if (req.url.startsWith('/interaction/')) {
      if (account === '') {
        await provider.interactionFinished(req, res, { error: 'access_denied' })
      } else {
        await provider.interactionFinished(req, res, { login: { accountId: account, ...strength } })
      }
    } else if (req.url === '/test/account') {
      let text = ''
      for await (const part of req) text += part
      const is = JSON.parse(text)
      account = is.id
      claims[is.id] = is.claims
      strength = is.strength ?? {}
      res.end()
    } else {
      answer(req, res)
    }
  })
  server.listen(port, '127.0.0.1', () => console.log(JSON.stringify({ issuer, port: server.address().port })))
}

const lines = createInterface({ input: process.stdin })
lines.once('line', (line) => {
  for (const one of JSON.parse(line)) start(one)
})
lines.on('close', () => process.exit(0))
