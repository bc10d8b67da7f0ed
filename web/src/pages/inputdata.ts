// How the input of a task is written.
import type { TaskDefinition } from '../api/types'

const plain = /^[A-Za-z0-9_@%+=:,./-]+$/

/** Writes a program with its arguments as a shell takes them. The text of a shell task is shown as it is. */
export function commandText(argv: string[]): string {
  if (argv.length === 3 && argv[0] === 'sh' && argv[1] === '-c') return argv[2] ?? ''
  return argv.map((a) => (plain.test(a) ? a : `'${a.replaceAll("'", `'\\''`)}'`)).join(' ')
}

const kinds: Record<string, string> = {
  shell: 'a shell command',
  argv: 'a program',
  code: 'a script in the workflow file',
  file: 'a script',
  builtin: 'a part of the program itself',
  http: 'a request',
  sql: 'a statement of SQL',
  python: 'a program of Python',
  container: 'a command in a container',
  ssh: 'a command on another machine',
  foreach: 'a list: it makes a task for each element',
  call: 'a run of another workflow',
  made: 'tasks that are made at run time',
  wait: 'a wait',
  approval: 'an approval',
  switch: 'a choice between branches',
  dependent: 'a wait for another run',
}

/** Says in words what a task is. */
export const kindText = (d: Pick<TaskDefinition, 'kind' | 'function'>): string =>
  d.kind === 'kind'
    ? `the kind ${d.function ?? ''}, which a worker or an extension brings`
    : (kinds[d.kind] ?? d.kind)
