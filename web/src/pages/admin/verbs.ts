import { t } from '../../text/t'
// The verbs that a role or a token can have, in words, in the order in which roles widen.

export type Verbs = readonly (readonly [verb: string, does: string])[]

export const verbGroups: readonly (readonly [title: string, verbs: Verbs])[] = [
  [
    t('See'),
    [
      ['workflow.read', t('see workflows and their versions')],
      ['run.read', t('see runs and their tasks')],
      ['schedule.read', t('see schedules and backfills')],
      ['queue.read', t('see queues and locks')],
      ['graph', t('see the graphs of runs and workflows')],
      ['explain', t('see why a run or a task waits')],
      ['events', t('follow changes as they happen')],
      ['alert.read', t('see alerts')],
      ['log.read', t('read logs')],
      ['artifact.read', t('read artifacts')],
      ['run.values', t('see parameters and outputs')],
      ['namespace.read', t('see quotas of namespaces and their use')],
    ],
  ],
  [
    t('Operate'),
    [
      ['run.start', t('start runs')],
      ['run.control', t('stop, kill, pause and resume runs')],
      ['run.redo', t('recover, rerun and retry runs and tasks')],
      ['schedule.operate', t('pause, resume and trigger schedules')],
      ['backfill.write', t('start, pause and cancel backfills')],
      ['workflow.operate', t('pause and resume workflows')],
      ['run.approve', t('answer approvals')],
      ['run.mark', t('mark and skip tasks')],
      ['alert.operate', t('acknowledge and resolve alerts')],
      ['event.send', t('send events')],
    ],
  ],
  [
    t('Edit'),
    [
      ['workflow.source', t('read the files of workflows, and check a file')],
      ['workflow.write', t('apply workflows, and roll them back')],
      ['workflow.delete', t('delete workflows')],
      ['queue.write', t('set, pause and drain queues')],
      ['connection.read', t('see and test connections')],
    ],
  ],
  [
    t('Administer a namespace'),
    [
      ['secret.list', t('see the names of secrets')],
      ['secret.write', t('set and delete secrets')],
      ['alert.channel', t('see, change and test channels of alerts')],
      ['connection.write', t('make, change and delete connections')],
      ['member.write', t('grant and revoke roles')],
      ['token.ns', t('make and revoke tokens of the namespace')],
      ['audit.read', t('read the audit log')],
    ],
  ],
  [
    t('Administer the cluster'),
    [
      ['node.read', t('see nodes and workers')],
      ['node.control', t('cordon and drain nodes, set their log levels')],
      ['shard.move', t('move shards and workflows to other nodes')],
      ['scheduler.read', t('see the state of the scheduler')],
      ['scheduler.control', t('stop and start the scheduler')],
      ['class.read', t('see classes')],
      ['class.write', t('set and delete classes')],
      ['token.all', t('see, make and revoke all tokens')],
      ['user.read', t('see users and services')],
      ['user.write', t('create, change and delete users and services')],
      ['user.impersonate', t('make tokens for other users')],
      ['role.read', t('see roles')],
      ['role.write', t('create and delete roles')],
      ['key.rotate', t('change the keys of the cluster')],
      ['namespace.write', t('set quotas of namespaces')],
      ['verify', t('verify the data')],
      ['metrics', t('read metrics')],
    ],
  ],
]

/** The groups with those of their verbs that are in a list. Verbs that the page does not know come last. */
export function grouped(verbs: readonly string[]): [string, Verbs][] {
  const rest = new Set(verbs)
  const found = verbGroups.map(([title, all]): [string, Verbs] => [
    title,
    all.filter(([v]) => rest.delete(v)),
  ])
  if (rest.size > 0) found.push([t('Other'), [...rest].map((v) => [v, ''] as const)])
  return found.filter(([, of]) => of.length > 0)
}
