// A workflow from git in the editor: it is read only, and can be saved as a copy.
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { Failure } from '../api/client'
import { all, useWorkflows } from '../api/queries'
import type { GitSource } from '../api/types'
import { useAsked } from '../app/ask'
import { Dialog } from '../kit/dialog'
import { Button } from '../kit/parts'
import { VerbButton } from '../kit/verbs'
import { hasTriggers, renamedCopy } from '../text/copy'
import { saveDraft } from '../text/drafts'
import { rich, t } from '../text/t'
import { bare, fileLink, short } from './admin/gitdata'
import { type Base, nothing, readBase } from './editordata'

/** The git source that a workflow belongs to. The server refuses a change of such a workflow by hand. */
export type Managed = { source: GitSource; file: string }

export async function readManaged(
  ns: string,
  name: string,
  signal: AbortSignal,
): Promise<Managed | undefined> {
  try {
    const sources = await all<GitSource>('/git-sources', { namespace: ns }, signal)
    for (const source of sources) {
      const one = source.state.workflows.find((w) => bare(w.workflow) === name)
      if (one) return { source, file: one.file }
    }
  } catch (e) {
    // The server itself refuses the apply, so a list that cannot be read must not close the editor.
    if (!(e instanceof Failure)) throw e
  }
  return undefined
}

/** What a new workflow begins from: nothing, or the files of the workflow NAMESPACE/NAME that it is a copy of. */
export async function readCopied(from: string | undefined, signal: AbortSignal): Promise<Base> {
  if (!from) return nothing
  const { files, dir } = await readBase(from.split('/')[0] ?? '', bare(from), signal)
  return { ...nothing, files, dir }
}

/** Says where a workflow from git is changed. */
export function FromGit({ managed: { source: g, file }, ns }: { managed: Managed; ns: string }) {
  const asked = useAsked()
  const link = fileLink(g, file)
  return (
    <div className="notice row" role="status">
      <span className="grow">
        {rich(
          'This workflow comes from git: {file} of {source}, commit {commit}. Change it in the repository.',
          {
            file: <b className="mono">{file}</b>,
            source: (
              <Link to="/admin/git" search={{ q: `${g.namespace}/${g.name}` }}>
                {g.name}
              </Link>
            ),
            commit: <code title={g.state.applied ?? ''}>{short(g.state.applied ?? '–')}</code>,
          },
        )}
      </span>
      {link ? (
        <a className="button" href={link} target="_blank" rel="noreferrer">
          {t('Open the file')}
        </a>
      ) : null}
      <VerbButton verb="workflow.write" namespace={ns} onPress={() => asked.open('copy')}>
        {t('Save as a copy…')}
      </VerbButton>
    </div>
  )
}

const named = /^[a-z0-9][a-z0-9-]{0,62}$/

/** Asks for the name of a copy, and opens it in the editor as a draft. Nothing is applied. */
export function CopyDialog({
  ns,
  name,
  text,
  onClose,
}: {
  ns: string
  name: string
  text: string
  onClose: () => void
}) {
  return (
    <Dialog title={t('Save as a copy')} isOpen onClose={onClose}>
      <Copy ns={ns} name={name} text={text} />
    </Dialog>
  )
}

function Copy({ ns, name, text }: { ns: string; name: string; text: string }) {
  const navigate = useNavigate()
  const asked = useAsked()
  const [to, setTo] = useState({ ns, name: `${name.slice(0, 58)}-copy` })
  const { data: workflows } = useWorkflows()
  const taken = workflows?.some((w) => w.namespace === to.ns && w.name === to.name) ?? false
  const full = to.ns === 'default' ? to.name : `${to.ns}/${to.name}`
  const ready = named.test(to.name) && named.test(to.ns) && !taken
  const open = async () => {
    const copy = renamedCopy(text, to.ns, to.name)
    await saveDraft({ workflow: full, text: copy, revision: 0, version: 0, base: '', savedAt: Date.now() })
    await navigate({
      to: '/edit/$ns/$name',
      params: to,
      search: { new: 'yes', from: `${ns}/${name}` },
      replace: true,
    })
  }
  const set = (change: Partial<typeof to>) => setTo({ ...to, ...change })
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (ready) void open()
      }}
    >
      <p>{t('The copy does not come from git. It is a draft until you apply it.')}</p>
      {hasTriggers(text) ? (
        <p>
          {t(
            'It has the same triggers, which start runs as soon as you apply it. Change them first if that is wrong.',
          )}
        </p>
      ) : null}
      <label className="field">
        <span>{t('Name')}</span>
        <input
          className="input"
          // biome-ignore lint/a11y/noAutofocus: the dialog was opened to answer this.
          autoFocus
          aria-invalid={taken || undefined}
          value={to.name}
          onChange={(e) => set({ name: e.target.value })}
        />
        <small className={taken ? 'error' : undefined}>
          {taken ? t('There is a workflow of this name.') : t('Small letters, digits and -, at most 63.')}
        </small>
      </label>
      <label className="field">
        <span>{t('Namespace')}</span>
        <input className="input" value={to.ns} onChange={(e) => set({ ns: e.target.value })} />
      </label>
      <footer>
        <Button onPress={asked.close}>{t('Cancel')}</Button>
        <Button kind="primary" type="submit" isDisabled={!ready}>
          {t('Open the copy')}
        </Button>
      </footer>
    </form>
  )
}
