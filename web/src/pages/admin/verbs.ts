// The verbs that a role or a token can have, in words, in the order in which roles widen.

export type Verbs = readonly (readonly [verb: string, does: string])[]

export const verbGroups: readonly (readonly [title: string, verbs: Verbs])[] = [
  [
    'See',
    [
      ['workflow.read', 'see workflows and their versions'],
      ['run.read', 'see runs and their tasks'],
      ['schedule.read', 'see schedules and backfills'],
      ['queue.read', 'see queues and locks'],
      ['graph', 'see the graphs of runs and workflows'],
      ['explain', 'see why a run or a task waits'],
      ['events', 'follow changes as they happen'],
      ['alert.read', 'see alerts'],
      ['log.read', 'read logs'],
      ['artifact.read', 'read artifacts'],
      ['run.values', 'see parameters and outputs'],
      ['namespace.read', 'see quotas of namespaces and their use'],
    ],
  ],
  [
    'Operate',
    [
      ['run.start', 'start runs'],
      ['run.control', 'stop, kill, pause and resume runs'],
      ['run.redo', 'recover, rerun and retry runs and tasks'],
      ['schedule.operate', 'pause, resume and trigger schedules'],
      ['backfill.write', 'start, pause and cancel backfills'],
      ['workflow.operate', 'pause and resume workflows'],
      ['run.approve', 'answer approvals'],
      ['run.mark', 'mark and skip tasks'],
      ['alert.operate', 'acknowledge and resolve alerts'],
      ['event.send', 'send events'],
    ],
  ],
  [
    'Edit',
    [
      ['workflow.source', 'read the files of workflows, and check a file'],
      ['workflow.write', 'apply workflows, and roll them back'],
      ['workflow.delete', 'delete workflows'],
      ['queue.write', 'set, pause and drain queues'],
      ['connection.read', 'see and test connections'],
    ],
  ],
  [
    'Administer a namespace',
    [
      ['secret.list', 'see the names of secrets'],
      ['secret.write', 'set and delete secrets'],
      ['alert.channel', 'see, change and test channels of alerts'],
      ['connection.write', 'make, change and delete connections'],
      ['member.write', 'grant and revoke roles'],
      ['token.ns', 'make and revoke tokens of the namespace'],
      ['audit.read', 'read the audit log'],
    ],
  ],
  [
    'Administer the cluster',
    [
      ['node.read', 'see nodes and workers'],
      ['node.control', 'cordon and drain nodes, set their log levels'],
      ['shard.move', 'move shards and workflows to other nodes'],
      ['scheduler.read', 'see the state of the scheduler'],
      ['scheduler.control', 'stop and start the scheduler'],
      ['class.read', 'see classes'],
      ['class.write', 'set and delete classes'],
      ['token.all', 'see, make and revoke all tokens'],
      ['user.read', 'see users and services'],
      ['user.write', 'create, change and delete users and services'],
      ['user.impersonate', 'make tokens for other users'],
      ['role.read', 'see roles'],
      ['role.write', 'create and delete roles'],
      ['key.rotate', 'change the keys of the cluster'],
      ['namespace.write', 'set quotas of namespaces'],
      ['verify', 'verify the data'],
      ['metrics', 'read metrics'],
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
  if (rest.size > 0) found.push(['Other', [...rest].map((v) => [v, ''] as const)])
  return found.filter(([, of]) => of.length > 0)
}
