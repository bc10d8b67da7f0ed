// The OpenID provider of the tests of the server, for flows of the page. make tools installs it.
import { spawn } from 'node:child_process'
import { createHash, generateKeyPairSync } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const folder = join(process.cwd(), '../internal/app/testdata/provider')

/** The secret of the client. */
export const secret = 'for tests only, and not short'

export type Provider = {
  /** Chooses the account of the next sign-in, and the claims of the provider about it. */
  account: (id: string, claims: object) => Promise<void>
  end: () => Promise<void>
}

/** Starts a provider with an issuer on a port of this machine, and a client at an address of a server. */
export async function startProvider(issuer: string, port: number, server: string): Promise<Provider> {
  const lock = createHash('sha256').update(readFileSync(join(folder, 'package-lock.json')))
  const cache = process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache')
  const installed = join(cache, 'skein', `oidc-provider-${lock.digest('hex').slice(0, 12)}`)
  if (!existsSync(join(installed, 'node_modules', '.complete')))
    throw new Error('the OpenID provider of the tests is not installed; make tools installs it')
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const key = { ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: 'k1' }
  const client = {
    client_id: 'skein',
    client_secret: secret,
    redirect_uris: [`${server}/auth/corp/callback`],
  }
  const child = spawn(process.execPath, [join(folder, 'provider.mjs'), installed], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = new Promise((done) => child.once('exit', done))
  const ready = new Promise((done) => child.stdout.once('data', done))
  child.stdin.write(`${JSON.stringify([{ issuer, port, jwks: { keys: [key] }, clients: [client] }])}\n`)
  await Promise.race([
    ready,
    ended.then((code) => Promise.reject(new Error(`the provider ended with ${code}`))),
  ])
  return {
    account: async (id, claims) => {
      await fetch(`http://127.0.0.1:${port}/test/account`, {
        method: 'POST',
        body: JSON.stringify({ id, claims }),
      })
    },
    end: async () => {
      child.stdin.end()
      await ended
    },
  }
}
