// How the input of a task is written.
import type { TaskDefinition } from '../api/types'
import { t } from '../text/t'

const plain = /^[A-Za-z0-9_@%+=:,./-]+$/

/** Writes a program with its arguments as a shell takes them. The text of a shell task is shown as it is. */
export function commandText(argv: string[]): string {
  if (argv.length === 3 && argv[0] === 'sh' && argv[1] === '-c') return argv[2] ?? ''
  return argv.map((a) => (plain.test(a) ? a : `'${a.replaceAll("'", `'\\''`)}'`)).join(' ')
}

const kinds: Record<string, string> = {
  shell: t('a shell command'),
  argv: t('a program'),
  code: t('a script in the workflow file'),
  file: t('a script'),
  builtin: t('a part of the program itself'),
  http: t('a request'),
  sql: t('a statement of SQL'),
  python: t('a program of Python'),
  spark: t('an application of Spark'),
  hadoop: t('a program of MapReduce'),
  container: t('a command in a container'),
  ssh: t('a command on another machine'),
  foreach: t('a list: it makes a task for each element'),
  call: t('a run of another workflow'),
  made: t('tasks that are made at run time'),
  wait: t('a wait'),
  approval: t('an approval'),
  switch: t('a choice between branches'),
  dependent: t('a wait for another run'),
  notify: t('a message over channels'),
}

/** Says in words what a task is. */
export const kindText = (d: Pick<TaskDefinition, 'kind' | 'function'>): string =>
  d.kind === 'kind'
    ? t('the kind {function}, which a worker or an extension brings', { function: d.function ?? '' })
    : (kinds[d.kind] ?? d.kind)
