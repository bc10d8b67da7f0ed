// The sign-out of a person. It deletes the drafts, so the page asks first if there are drafts.
import { useState } from 'react'
import { Failure } from '../api/client'
import { signOut } from '../api/session'
import { toast } from '../kit/dialog'
import { Confirm, type Question } from '../kit/verbs'
import { draftNames } from '../text/drafts'
import { t } from '../text/t'

// A node that answers every user of its machine has no session to end.
const notSignedIn = (e: unknown) =>
  toast(
    e instanceof Failure && e.kind === 'not-found' ? t('You use this server without signing in.') : String(e),
  )

/** Returns a function that signs out, and the question that this function may ask first. */
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
