// The form that asks for a name and a password, or a token. The page below keeps its drafts if a session ends.
import { useQueryClient } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from 'react'
import {
  type Arrival,
  type Credential,
  identityProviders,
  loginAddress,
  type Provider,
  signIn,
  useSignInAsked,
} from '../api/session'
import { dropToasts } from '../kit/dialog'
import { Button, Command } from '../kit/parts'
import { t } from '../text/t'

/** Shows the form as long as a session is needed. The page stays below it, unless the person signed out. */
export function SignedIn({ arrival, children }: { arrival: Arrival; children: ReactNode }) {
  const queries = useQueryClient()
  const asked = useSignInAsked()
  const left = asked === 'signed-out'
  // Only the first form shows the result of the address.
  const [shown, setShown] = useState(arrival)
  useEffect(() => {
    if (asked === 'no') setShown({})
  }, [asked])
  // The page is unmounted by now, so this reads nothing again.
  useEffect(() => {
    if (!left) return
    queries.clear()
    dropToasts()
    document.title = 'Skein'
  }, [left, queries])
  return (
    <>
      {left ? null : (
        <div className="contents" inert={asked !== 'no'}>
          {children}
        </div>
      )}
      {asked === 'no' ? null : <SignIn arrival={shown} />}
    </>
  )
}

function SignIn({ arrival }: { arrival: Arrival }) {
  const [way, setWay] = useState<'password' | 'token'>('password')
  const [problem, setProblem] = useState(arrival.problem ?? '')
  const [offered, setOffered] = useState(arrival.offered)
  const [busy, setBusy] = useState(false)
  const [providers, setProviders] = useState<Provider[]>([])
  useEffect(() => {
    void identityProviders().then(setProviders)
  }, [])
  const first = useRef<HTMLInputElement>(null)
  // biome-ignore lint/correctness/useExhaustiveDependencies: the field is another one for each way
  useEffect(() => first.current?.focus(), [way])
  const submit = (e: FormEvent<HTMLFormElement>) => {
    e.preventDefault()
    const of = new FormData(e.currentTarget)
    const text = (name: string) => String(of.get(name) ?? '')
    const token = text('token').trim()
    void enter(
      way === 'password'
        ? { user: text('user').trim(), password: text('password') }
        : token.startsWith('skein_code_')
          ? { code: token }
          : { token },
    )
  }
  const enter = async (credential: Credential) => {
    setBusy(true)
    setProblem('')
    try {
      await signIn(credential)
    } catch (failed) {
      setProblem(failed instanceof Error ? failed.message : String(failed))
      setBusy(false)
    }
  }
  return (
    <main className="sign-in">
      <form onSubmit={submit} aria-labelledby="sign-in-title">
        <h1 id="sign-in-title">{t('Sign in to Skein')}</h1>
        {problem ? (
          <p className="problem" role="alert">
            {problem}
          </p>
        ) : null}
        {offered ? (
          <>
            <p>
              {t(
                'The address of this page had a sign-in code. It signs you in as the person who made it. Use it only if you asked for it.',
              )}
            </p>
            <div className="row">
              <Button
                isDisabled={busy}
                onPress={() => {
                  setOffered(undefined)
                  void enter({ code: offered })
                }}
              >
                {t('Sign in with the code of this address')}
              </Button>
            </div>
          </>
        ) : null}
        {providers.map((provider) => (
          <a className="button" key={provider.name} href={loginAddress(provider)}>
            {t('Sign in with {name}', { name: provider.name })}
          </a>
        ))}
        {way === 'password' ? (
          <>
            <label className="field">
              <span>{t('Name')}</span>
              <input ref={first} className="input" name="user" autoComplete="username" required />
            </label>
            <label className="field">
              <span>{t('Password')}</span>
              <input
                className="input"
                name="password"
                type="password"
                autoComplete="current-password"
                required
              />
            </label>
          </>
        ) : (
          <label className="field">
            <span>{t('Token or code')}</span>
            <input ref={first} className="input" name="token" type="password" autoComplete="off" required />
            <small>{t('A token of the kind api, or a code of skein open.')}</small>
          </label>
        )}
        <div className="row">
          <Button kind="primary" type="submit" isDisabled={busy}>
            {t('Sign in')}
          </Button>
          <Button
            kind="quiet"
            onPress={() => {
              setProblem('')
              setWay(way === 'password' ? 'token' : 'password')
            }}
          >
            {way === 'password' ? t('Use a token') : t('Use a password')}
          </Button>
        </div>
        <p className="muted">{t('Do you run the server on this machine? Open the page signed in:')}</p>
        <Command text="skein open" />
      </form>
    </main>
  )
}
