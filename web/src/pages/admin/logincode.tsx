// A code that opens one session with the rights of the person, for skein login on a machine without a browser.
import { useState } from 'react'
import { basePath, post } from '../../api/client'
import type { SignInCode } from '../../api/types'
import { useVerb } from '../../api/verbs'
import { Dialog } from '../../kit/dialog'
import { Button, Clock, Copy } from '../../kit/parts'
import { ProblemBox } from '../../kit/problem'
import { rich, t } from '../../text/t'

export function LoginCode({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const [made, setMade] = useState<SignInCode>()
  const close = () => {
    setMade(undefined)
    onClose()
  }
  return (
    <Dialog title={t('Sign in at a terminal')} isOpen={isOpen} onClose={close}>
      {isOpen ? (
        made ? (
          <Shown code={made} onClose={close} />
        ) : (
          <Ask onMade={setMade} onClose={close} />
        )
      ) : null}
    </Dialog>
  )
}

function Ask({ onMade, onClose }: { onMade: (code: SignInCode) => void; onClose: () => void }) {
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
  return (
    <>
      <p>
        {t(
          'A code opens one session with your rights, on any machine. It is valid once, within a minute. The new session ends when this one ends. Start the command first, then paste the code when it asks for it:',
        )}
      </p>
      <Command text={`skein login ${location.origin}${basePath} --code`} label={t('Copy the command')} />
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button
          kind="primary"
          isDisabled={isPending}
          onPress={() => void run(async () => onMade(await post<SignInCode>('/session:code', {})))}
        >
          {t('Make a code')}
        </Button>
      </footer>
    </>
  )
}

function Shown({ code, onClose }: { code: SignInCode; onClose: () => void }) {
  return (
    <>
      <p>
        {rich('Paste this code into the terminal. It ends at {time}, and its holder signs in as you.', {
          time: <Clock time={code.expires_at} />,
        })}
      </p>
      <Command text={code.code} label={t('Copy the code')} isSecret />
      <footer>
        <Button kind="primary" onPress={onClose} autoFocus>
          {t('Close')}
        </Button>
      </footer>
    </>
  )
}

function Command({ text, label, isSecret }: { text: string; label: string; isSecret?: boolean }) {
  return (
    <div className="command">
      <code data-secret={isSecret} tabIndex={0}>
        {text}
      </code>
      <Copy text={text} label={label} />
    </div>
  )
}
