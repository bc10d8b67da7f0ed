// The end of a session by the person: drafts go with it, so it is asked for when there are some.
import { useState } from 'react'
import { Failure } from '../api/client'
import { signOut } from '../api/session'
import { toast } from '../kit/dialog'
import { Confirm, type Question } from '../kit/verbs'
import { draftNames } from '../text/drafts'
import { t } from '../text/t'

// A node that answers everybody on its machine has no session to end.
const notSignedIn = (e: unknown) =>
  toast(
    e instanceof Failure && e.kind === 'not-found' ? t('You use this server without signing in.') : String(e),
  )

/** Gives a function that signs out, and the question that it may ask first. */
export function useLeave() {
  const [question, ask] = useState<Question>()
  const leave = async () => {
    const drafts = await draftNames()
    if (drafts.length === 0) return signOut().catch(notSignedIn)
    ask({
      title: t('Sign out'),
      text: (
        <>
          <p>{t('Your drafts are deleted, with all changes that you have not applied:')}</p>
          <ul className="bullets">
            {drafts.map((name) => (
              <li key={name}>{name}</li>
            ))}
          </ul>
        </>
      ),
      answer: t('Delete the drafts and sign out'),
      danger: true,
      act: signOut,
    })
  }
  return {
    leave: () => void leave(),
    leaving: <Confirm question={question} onClose={() => ask(undefined)} />,
  }
}
