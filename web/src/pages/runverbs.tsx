import { useNavigate } from '@tanstack/react-router'
import { useCan } from '../api/me'
import type { Run } from '../api/types'
import { runVerb } from '../api/verbs'
import { useAsked, useQuestion } from '../app/ask'
import { useKeys } from '../app/keys'
import { type Item, Menu, toast } from '../kit/dialog'
import { isActive } from '../kit/states'
import { Confirm, needs, type Question, useToastVerb, VerbButton } from '../kit/verbs'
import { isRecoverable, useRecoverQuestion } from './recoverplan'

/** The verbs that fit the state of a run. */
export function RunVerbs({ run }: { run: Run }) {
  const navigate = useNavigate()
  const { run: act } = useToastVerb()
  const can = useCan()
  const active = isActive(run.state)
  const paused = run.state === 'paused' || run.intent === 'pause'
  const tasks = run.counts as Record<string, number>

  const stop = (): Question => ({
    title: `Stop ${run.workflow}`,
    text: 'Nothing new starts. What runs gets TERM, and KILL after its grace time.',
    answer: 'Stop the run',
    danger: true,
    reason: 'optional',
    act: (reason, key) => runVerb(run.id, 'stop', { reason }, key),
    done: 'The stop was asked for. Recover brings the run back.',
  })
  const kill = (): Question => ({
    title: `Kill ${run.workflow}`,
    text: `${tasks.running ?? 0} running tasks end at once, without a chance to clean up.`,
    answer: 'Kill the run',
    danger: true,
    reason: 'optional',
    act: (reason, key) => runVerb(run.id, 'kill', { reason }, key),
    done: 'The kill was asked for.',
  })
  const pause = () =>
    act(
      () => runVerb(run.id, 'pause'),
      () =>
        toast(`${run.workflow} is paused: nothing new starts.`, {
          undo: () => act(() => runVerb(run.id, 'resume')),
        }),
    )
  const resume = () =>
    act(
      () => runVerb(run.id, 'resume'),
      () => toast(`${run.workflow} goes on.`, { undo: () => act(() => runVerb(run.id, 'pause')) }),
    )
  const rerun = () =>
    act(
      () => runVerb(run.id, 'rerun') as Promise<Run>,
      (made) => {
        toast('A new run was started.')
        if (made.id) void navigate({ to: '/r/$id', params: { id: made.id } })
      },
    )
  const why = (verb: string, fits: boolean, text: string) =>
    can(verb, run.namespace) ? (fits ? undefined : text) : needs(verb, run.namespace)
  const recoverable = isRecoverable(run) && run.state !== 'succeeded'
  const asked = useAsked()
  const recover = useRecoverQuestion(run, asked.of, asked.name === 'recover' && isRecoverable(run))
  const { question } = useQuestion({
    recover: () => (isRecoverable(run) ? recover : undefined),
    stop: () => (active ? stop() : undefined),
    kill: () => (active ? kill() : undefined),
  })
  const items: Item[] = [
    { id: 'rerun', label: 'Run again, as a new run', onAction: rerun, disabled: why('run.redo', true, '') },
    {
      id: 'edit',
      label: 'Run again with other parameters…',
      onAction: () =>
        void navigate({
          to: '/w/$ns/$name/start',
          params: { ns: run.namespace, name: run.workflow.split('/').pop() ?? '' },
          search: Object.fromEntries(
            Object.entries((run.params ?? {}) as Record<string, unknown>).map(([n, v]) => [
              `p.${n}`,
              typeof v === 'string' ? v : JSON.stringify(v),
            ]),
          ),
        }),
    },
    {
      id: 'compare',
      label: 'Compare with the last good run',
      onAction: () => void navigate({ to: '/compare', search: { b: run.id } }),
    },
    {
      id: 'kill',
      label: 'Kill…',
      onAction: () => asked.open('kill'),
      danger: true,
      disabled: why('run.control', active, 'The run has ended.'),
    },
  ]
  useKeys({
    r: () => recoverable && can('run.redo', run.namespace) && asked.open('recover'),
    s: () => active && can('run.control', run.namespace) && asked.open('stop'),
    p: () => active && can('run.control', run.namespace) && (paused ? resume() : pause()),
  })
  return (
    <>
      {recoverable ? (
        <VerbButton
          verb="run.redo"
          namespace={run.namespace}
          kind="primary"
          onPress={() => asked.open('recover')}
        >
          Recover
        </VerbButton>
      ) : null}
      {active ? (
        <>
          <VerbButton
            verb="run.control"
            namespace={run.namespace}
            icon={paused ? 'play' : 'pause'}
            onPress={paused ? resume : pause}
          >
            {paused ? 'Resume' : 'Pause'}
          </VerbButton>
          <VerbButton
            verb="run.control"
            namespace={run.namespace}
            kind="danger"
            icon="stop"
            onPress={() => asked.open('stop')}
          >
            Stop
          </VerbButton>
        </>
      ) : null}
      <Menu label="More verbs" items={items} />
      <Confirm question={question} onClose={asked.close} />
    </>
  )
}
