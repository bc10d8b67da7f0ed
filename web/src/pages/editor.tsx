// The editor of a workflow: the text, the graph that follows it, the form of a task, the problems, and the
// apply.
import { t } from '../text/t'
import './editor.css'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useMemo, useRef, useState } from 'react'
import type { FileError } from '../api/types'
import { useAsked } from '../app/ask'
import { useKeys } from '../app/keys'
import { type DropPlace, taskType } from '../canvas/editgraph'
import { toast } from '../kit/dialog'
import { clock, plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Button } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { VerbButton } from '../kit/verbs'
import { readDraft } from '../text/drafts'
import { type EditorHandle, TextEditor } from '../text/editor'
import { useHold } from '../text/hold'
import { type File, namesByLine, readFile } from '../text/outline'
import { addNeed, addTask, type Change, deleteTask, inTurn, removeNeed, setKey, unsetKey } from '../text/plan'
import { renameTask } from '../text/rename'
import type { Value } from '../text/values'
import { ApplyDialog } from './applydialog'
import { type Base, fixOf, placeOf, readBase, template, useCheck, useSchema } from './editordata'
import { useDraft } from './editordraft'
import { CopyDialog, FromGit, type Managed, readCopied, readManaged } from './editorgit'
import { Graph, type GraphActs, isShort, useSettled } from './editorgraph'
import { Head } from './head'
import { Inspector } from './inspector'

type Opened = { base: Base; text: string; savedAt: number | undefined; managed: Managed | undefined }

let openings = 0

export function Editor() {
  const { ns, name } = useParams({ from: '/edit/$ns/$name' })
  const workflow = ns === 'default' ? name : `${ns}/${name}`
  const { new: isNew, from } = useSearch({ from: '/edit/$ns/$name' })
  // The query cache keeps an answer for a moment after the page is left. A page that is opened again within that
  // moment must read the draft that was saved at the end, so each opening has a key of its own.
  const [opening] = useState(() => ++openings)
  const opened = useQuery({
    queryKey: ['editor', workflow, isNew, from, opening],
    queryFn: async ({ signal }): Promise<Opened> => {
      const [draft, managed] = await Promise.all([readDraft(workflow), readManaged(ns, name, signal)])
      // A draft of an existing workflow needs its files, also if it is opened as a new one.
      const now =
        isNew && !draft?.revision ? await readCopied(from, signal) : await readBase(ns, name, signal)
      const start = now.revision === 0 ? template(ns, name) : now.source
      if (!draft || draft.text === now.source) return { base: now, text: start, savedAt: undefined, managed }
      // The draft keeps the revision from which it began, so that an apply notices changes that came in
      // between.
      const base = { ...now, revision: draft.revision, version: draft.version, source: draft.base }
      return { base, text: draft.text, savedAt: draft.savedAt, managed }
    },
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    refetchOnWindowFocus: false,
  })
  // A background read must not replace the editor. The editor starts again only after Discard.
  const [round, setRound] = useState(0)
  const again = () => opened.refetch().then(() => setRound((n) => n + 1))
  const flush = useRef(() => {})
  const hold = useHold(workflow, { lose: () => flush.current(), taken: again })
  return (
    <>
      {hold.state === 'elsewhere' ? <Elsewhere take={hold.take} /> : null}
      <Loaded query={opened} rows={12}>
        {(o) => (
          <Desk
            key={`${workflow} ${round}`}
            ns={ns}
            name={name}
            opened={o}
            again={again}
            isHeld={hold.state === 'held'}
            onFlush={flush}
          />
        )}
      </Loaded>
    </>
  )
}

/** Says that another tab has the draft, and lets a person continue here. */
function Elsewhere({ take }: { take: () => void }) {
  return (
    <p className="notice row" role="status">
      <span className="grow">
        {t(
          'Another tab of this browser edits this workflow. This tab shows what was saved when it was opened.',
        )}
      </span>
      <Button onPress={take}>{t('Edit in this tab')}</Button>
    </p>
  )
}

/** The notes about a text that is equal to its version. An earlier draft must not come back. */
const unchanged = {
  no: t('unchanged'),
  asked: t('the browser deletes the draft…'),
  failed: t('the browser could not delete the draft'),
}

type DeskProps = {
  ns: string
  name: string
  opened: Opened
  again: () => Promise<unknown>
  /** Whether this tab has the draft. If not, it changes nothing. */
  isHeld: boolean
  onFlush: { current: () => void }
}

function Desk({ ns, name, opened, again, isHeld, onFlush }: DeskProps) {
  const workflow = ns === 'default' ? name : `${ns}/${name}`
  const [base, setBase] = useState(opened.base)
  const [text, setText] = useState(opened.text)
  const typed = useRef(opened.text)
  const asked = useAsked()
  const { managed } = opened
  const isOpen = isHeld && !managed
  const apply = () => isOpen && asked.open('apply')
  const editor = useRef<EditorHandle>(null)
  const settled = useSettled(text)
  const check = useCheck(base, text)
  const schema = useSchema()
  const { task } = useSearch({ from: '/edit/$ns/$name' })
  // Reading a long text takes seconds, so it is read only for the form of a task. Its names are found by the line.
  const isRead = task !== undefined || isShort(settled)
  const file = useMemo(() => (isRead ? readFile(settled) : undefined), [settled, isRead])
  const tasks = useMemo(
    () => file?.tasks.map((row) => row.name) ?? namesByLine(settled) ?? check.drawing?.names ?? [],
    [file, settled, check.drawing],
  )
  const navigate = useNavigate({ from: '/edit/$ns/$name' })
  const select = (each: string | undefined) =>
    void navigate({ search: (old) => ({ ...old, task: each }), replace: true })
  const { saved, dropping, drop, flush } = useDraft({
    workflow,
    base,
    text,
    savedAt: opened.savedAt,
    isHeld,
    typed,
  })
  onFlush.current = flush
  const edits = useEdits(editor, select)
  const chosen = file?.tasks.find((one) => one.name === task)
  const changed = text !== base.source
  const problem = useNextProblem(check.errors, (p) => editor.current?.go(placeOf(text, p.line, p.column)))
  useKeys({ 'Ctrl-Enter': apply, F8: problem })
  const onKey = (key: string) => {
    if (key === 'a') edits.add('run', task ? { after: task } : {})
    else if (key === 'Delete' && chosen) edits.remove(chosen.name)
    else if (key === 'F2' && chosen) document.querySelector<HTMLInputElement>('#inspector-name')?.focus()
    else return false
    return true
  }
  const latest = useRef<GraphActs>(undefined)
  const show = (name: string | undefined) => {
    select(name)
    const entry = file?.tasks.find((one) => one.name === name)?.entry.key.range
    if (managed && entry && file?.text === text) editor.current?.go(entry[0], entry[1])
  }
  latest.current = managed
    ? { onSelect: show, onLink: () => {}, onDrop: () => {}, onKey: () => false }
    : { onSelect: select, onLink: edits.link, onDrop: edits.add, onKey }
  return (
    <>
      <Head
        label={t('Edit {workflow}', { workflow })}
        title={
          base.revision === 0
            ? t('New workflow {workflow}', { workflow })
            : managed
              ? t('Source of {workflow}', { workflow })
              : t('Edit {workflow}', { workflow })
        }
        actions={
          <>
            {changed && base.revision > 0 ? (
              <Button kind="quiet" isDisabled={!isHeld} onPress={() => void drop().then(again)}>
                {t('Discard the draft')}
              </Button>
            ) : null}
            {managed ? null : (
              <VerbButton
                verb="workflow.write"
                namespace={ns}
                kind="primary"
                isDisabled={!isHeld || !changed || check.errors.length > 0}
                onPress={apply}
              >
                {t('Apply…')}
              </VerbButton>
            )}
          </>
        }
      >
        <p className="sub" role="status">
          {base.revision === 0
            ? t('not applied yet')
            : changed
              ? t('draft of v{version}', { version: base.version })
              : `v${base.version}${dropping === 'no' ? ',' : ';'} ${unchanged[dropping]}`}
          {changed && saved ? ` · ${t('saved in this browser at {time}', { time: clock(saved) })}` : ''}
        </p>
      </Head>
      {managed ? <FromGit managed={managed} ns={ns} /> : null}
      <div className="editor" inert={!isHeld}>
        <Panel title={t('Text')}>
          <TextEditor
            handle={editor}
            initial={opened.text}
            label={t('Source of {workflow}', { workflow })}
            onChange={(now) => {
              typed.current = now
              setText(now)
            }}
            onApply={apply}
            problems={check.errors}
            schema={schema}
            tasks={tasks}
            isReadOnly={managed !== undefined}
          />
          <Problems
            text={text}
            errors={check.errors}
            failure={check.failure}
            checked={check.text === text}
            go={(p) => editor.current?.go(placeOf(text, p.line, p.column))}
            fix={
              managed
                ? undefined
                : (change) => editor.current?.text() === text && editor.current.change([change])
            }
          />
        </Panel>
        <Panel
          title={t('Graph')}
          count={plural(tasks.length, 'task')}
          actions={managed ? null : <Palette add={(k) => edits.add(k, task ? { after: task } : {})} />}
        >
          {check.drawing ? (
            <Graph drawing={check.drawing} selected={task} old={check.errors.length > 0} latest={latest} />
          ) : (
            <p className="empty">
              {check.errors.length > 0
                ? t('The graph is drawn once the text has no problem.')
                : t('The server draws the graph…')}
            </p>
          )}
          {file && chosen && !managed ? (
            <Inspector
              file={file}
              task={chosen}
              schema={schema}
              onSet={(path, value) => edits.plan((f) => setKey(f, chosen.name, path, value))}
              onUnset={(path) => edits.plan((f) => unsetKey(f, chosen.name, path))}
              onRename={(to) => edits.plan((f) => renameTask(f, chosen.name, to)) && select(to)}
              onNeed={(need, on) =>
                edits.plan((f) => (on ? addNeed(f, chosen.name, need) : removeNeed(f, chosen.name, need)))
              }
              onDelete={() => edits.remove(chosen.name)}
              onShow={(from, to) => file.text === text && editor.current?.go(from, to)}
              onClose={() => select(undefined)}
            />
          ) : null}
        </Panel>
      </div>
      {asked.name === 'copy' && managed ? (
        <CopyDialog ns={ns} name={name} text={text} onClose={asked.close} />
      ) : null}
      {asked.name === 'apply' && isOpen ? (
        <ApplyDialog
          ns={ns}
          name={name}
          base={base}
          text={text}
          onClose={asked.close}
          onMerged={(next, merged) => {
            setBase(next)
            editor.current?.replace(merged)
          }}
          onApplied={setBase}
        />
      ) : null}
    </>
  )
}

function useNextProblem(errors: FileError[], go: (p: FileError) => void) {
  const at = useRef(-1)
  return () => {
    if (errors.length === 0) return
    at.current = (at.current + 1) % errors.length
    go(errors[at.current] as FileError)
  }
}

const kinds: Record<string, { label: string; base: string; body: Record<string, Value> }> = {
  run: { label: t('Shell'), base: 'task', body: { run: 'echo hello' } },
  python: { label: 'Python', base: 'script', body: { run: { python: "print('hello')\n" } } },
  http: { label: 'HTTP', base: 'request', body: { http: { url: 'http://127.0.0.1:8080/' } } },
  foreach: {
    label: t('For each'),
    base: 'each',
    body: { foreach: ['a', 'b'], run: 'echo "$ITEM"', env: { ITEM: `\${{ item }}` } },
  },
  sql: { label: 'SQL', base: 'query', body: { sql: { connection: 'warehouse', query: 'SELECT 1' } } },
  environment: {
    label: t('Python with packages'),
    base: 'program',
    body: { python: { code: "print('hello')\n" } },
  },
  spark: {
    label: 'Spark',
    base: 'spark',
    body: { spark: { master: 'local[2]', main: 'job.py' } },
  },
  hadoop: {
    label: 'MapReduce',
    base: 'mapreduce',
    body: { hadoop: { jar: 'job.jar', class: 'Main', resource_manager: 'http://rm:8088' } },
  },
  container: {
    label: t('Container'),
    base: 'box',
    body: { container: { image: 'python:3.12', run: 'python --version' } },
  },
  ssh: { label: 'SSH', base: 'remote', body: { ssh: { connection: 'machine', run: 'uptime' } } },
  wait: { label: t('Wait'), base: 'wait', body: { wait: '10s' } },
  event: { label: t('Event'), base: 'event', body: { wait: { event: { type: 'order.created' } } } },
  approval: { label: t('Approval'), base: 'approve', body: { approval: { message: t('Continue?') } } },
  notify: { label: t('Message'), base: 'tell', body: { notify: { channel: 'ops', text: t('Done') } } },
}

/** The edits of the graph and of the form, as plans for the text. A plan that is refused says why. */
function useEdits(editor: { current: EditorHandle | null }, select: (task: string | undefined) => void) {
  const plan = (make: (f: File) => Change[], ...then: ((f: File) => Change[])[]): boolean => {
    try {
      editor.current?.change(inTurn(editor.current.text(), make, ...then))
      return true
    } catch (e) {
      toast((e as Error).message, { bad: true })
      return false
    }
  }
  const add = (kind: string, at: DropPlace) => {
    const k = kinds[kind]
    if (!k) return
    const taken = new Set(readFile(editor.current?.text() ?? '').tasks.map((row) => row.name))
    let name = k.base
    for (let i = 2; taken.has(name); i++) name = `${k.base}-${i}`
    const between = at.between
    const needs = between ? [between[0]] : at.after ? [at.after] : []
    const steps = between
      ? [(f: File) => removeNeed(f, between[1], between[0]), (f: File) => addNeed(f, between[1], name)]
      : []
    if (plan((f) => addTask(f, { name, needs, body: k.body }), ...steps)) select(name)
  }
  return {
    plan,
    add,
    link: (from: string, to: string) => plan((f) => addNeed(f, to, from)),
    remove: (name: string) => {
      if (plan((f) => deleteTask(f, name))) select(undefined)
    },
  }
}

/** The kinds of tasks: drag one onto the graph, or press it to add it after the selected task. */
function Palette({ add }: { add: (kind: string) => void }) {
  return (
    <ul className="row editor-palette" aria-label={t('Add a task')}>
      {Object.entries(kinds).map(([kind, { label }]) => (
        <li key={kind}>
          <button
            type="button"
            className="chip"
            draggable
            title={t(
              'Drag it onto a task to add it after that task, or onto an edge to insert it there. Click to add it after the selected task.',
            )}
            onDragStart={(e) => {
              e.dataTransfer.setData(taskType, kind)
              e.dataTransfer.effectAllowed = 'copy'
            }}
            onClick={() => add(kind)}
          >
            + {label}
          </button>
        </li>
      ))}
    </ul>
  )
}

function Problems({
  text,
  errors,
  failure,
  checked,
  go,
  fix,
}: {
  text: string
  errors: FileError[]
  failure: Error | undefined
  checked: boolean
  go: (p: FileError) => void
  /** Absent: the text is read only. */
  fix: ((change: Change) => void) | undefined
}) {
  return (
    <section className="problems" aria-label={t('Problems')}>
      {failure ? <ProblemBox error={failure} /> : null}
      {errors.length === 0 && !failure ? (
        <p className="sub">
          {checked ? t('The server finds no problem.') : t('The server checks the text…')}
        </p>
      ) : null}
      <ul>
        {errors.slice(0, 50).map((p) => {
          const change = checked && fix ? fixOf(text, p) : undefined
          return (
            <li key={`${p.line}:${p.column}:${p.message}`} className="row">
              <button type="button" className="problem-line" onClick={() => go(p)}>
                <span className="mono muted">
                  {p.line}:{p.column}
                </span>{' '}
                {p.message}
                {p.hint && !change ? <span className="muted"> ({p.hint})</span> : null}
              </button>
              {change && fix ? (
                <Button onPress={() => fix(change)}>
                  {t('Change to {insert}', { insert: change.insert })}
                </Button>
              ) : null}
            </li>
          )
        })}
      </ul>
    </section>
  )
}
