// Tokens: rights to call nodes that other machines can reach.
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { get, path, post } from '../api/client'
import { slow } from '../api/queries'
import type { ListToken, NewToken, Token } from '../api/types'
import { plainVerb, useVerb } from '../api/verbs'
import { Dialog } from '../kit/dialog'
import { Loaded, Panel } from '../kit/panel'
import { Ago, Button, Clock, Copy, State } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { Confirm, type Question, VerbButton } from '../kit/verbs'
import { Head } from './head'

export function Tokens() {
  const query = useQuery({
    queryKey: ['tokens'],
    queryFn: ({ signal }) => get<ListToken>('/tokens', {}, signal),
    refetchInterval: slow,
  })
  const [adds, setAdds] = useState(false)
  const [question, ask] = useState<Question>()
  const revoke = (t: Token) =>
    ask({
      title: `Revoke the token ${t.name}`,
      text: 'What calls with it is refused from now on. It cannot be brought back.',
      answer: 'Revoke the token',
      danger: true,
      act: () => plainVerb(`${path('tokens', t.id)}:revoke`, undefined, false),
      done: `The token ${t.name} is revoked.`,
    })
  return (
    <>
      <Head
        title="Tokens"
        label="Tokens"
        actions={
          <VerbButton
            verb="token.create"
            namespace="*"
            kind="primary"
            icon="plus"
            onPress={() => setAdds(true)}
          >
            New token
          </VerbButton>
        }
      >
        <p className="sub">
          Programs, workers and nodes show a token to a node that other machines can reach.
        </p>
      </Head>
      <Panel title="Tokens" count={query.data?.items.length}>
        <Loaded query={query} isEmpty={(d) => d.items.length === 0} empty="There is no token yet.">
          {({ items }) => (
            <div className="scroll" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th>State</th>
                    <th>Name</th>
                    <th>Kind</th>
                    <th>Created</th>
                    <th>By</th>
                    <th>Expires</th>
                    <th>
                      <span className="hidden-text">Verbs</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((t) => (
                    <tr key={t.id}>
                      <td>
                        <State state={t.state} />
                      </td>
                      <td>{t.name}</td>
                      <td className="sub">{t.kind}</td>
                      <td className="nowrap">
                        <Ago time={t.created_at} />
                      </td>
                      <td className="sub">{t.created_by}</td>
                      <td className="nowrap">
                        {t.expires_at ? <Clock time={t.expires_at} /> : <span className="muted">never</span>}
                      </td>
                      <td className="num">
                        {t.state === 'valid' ? (
                          <VerbButton
                            verb="token.revoke"
                            namespace="*"
                            kind="quiet"
                            onPress={() => revoke(t)}
                          >
                            Revoke
                          </VerbButton>
                        ) : null}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Loaded>
      </Panel>
      <Dialog title="New token" isOpen={adds} onClose={() => setAdds(false)}>
        {adds ? <Add onClose={() => setAdds(false)} /> : null}
      </Dialog>
      <Confirm question={question} onClose={() => ask(undefined)} />
    </>
  )
}

const kinds = [
  ['api', 'people and programs: every route'],
  ['worker', 'workers: what they call'],
  ['node', 'nodes of a cluster: what they say to each other'],
] as const

const days = [7, 30, 90, 365]

function Add({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('')
  const [kind, setKind] = useState('api')
  const [expires, setExpires] = useState('90')
  const [made, setMade] = useState<NewToken>()
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
  if (made) {
    return (
      <>
        <p>This is the secret of {made.name}. It is shown now and never again.</p>
        <div className="command">
          <code data-secret>{made.secret}</code>
          <Copy text={made.secret} label="Copy the secret" />
        </div>
        <footer>
          <Button kind="primary" onPress={onClose}>
            Close
          </Button>
        </footer>
      </>
    )
  }
  const until = expires ? new Date(Date.now() + Number(expires) * 86_400_000).toISOString() : undefined
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (isPending) return
        run(
          () =>
            post<NewToken>('/tokens', { kind, name: name.trim(), ...(until ? { expires_at: until } : {}) }),
          setMade,
        )
      }}
    >
      <label className="field">
        <span>Name</span>
        <input
          className="input"
          required
          maxLength={100}
          value={name}
          onChange={(e) => setName(e.target.value)}
        />
        <small>Calls with the token are made in this name.</small>
      </label>
      <label className="field">
        <span>For</span>
        <select className="select" value={kind} onChange={(e) => setKind(e.target.value)}>
          {kinds.map(([k, what]) => (
            <option key={k} value={k}>
              {what}
            </option>
          ))}
        </select>
      </label>
      <label className="field">
        <span>Expires</span>
        <select className="select" value={expires} onChange={(e) => setExpires(e.target.value)}>
          {days.map((d) => (
            <option key={d} value={d}>
              in {d} days
            </option>
          ))}
          <option value="">never</option>
        </select>
      </label>
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>Cancel</Button>
        <Button kind="primary" type="submit" isDisabled={isPending || name.trim() === ''}>
          Make the token
        </Button>
      </footer>
    </form>
  )
}
