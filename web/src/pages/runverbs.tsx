import { useNavigate } from '@tanstack/react-router'
import { useCan } from '../api/me'
import type { Run } from '../api/types'
import { runVerb } from '../api/verbs'
import { useAsked, useQuestion } from '../app/ask'
import { useKeys } from '../app/keys'
import { type Item, Menu, toast } from '../kit/dialog'
import { isActive } from '../kit/states'
import { Confirm, needs, type Question, useToastVerb, VerbButton } from '../kit/verbs'
import { t } from '../text/t'
import { isRecoverable, useRecoverQuestion } from './recoverplan'

/** The verbs that are possible in the state of a run. */
export function RunVerbs({ run }: { run: Run }) {
  const navigate = useNavigate()
  const { run: act } = useToastVerb()
  const can = useCan()
  const active = isActive(run.state)
  const paused = run.state === 'paused' || run.intent === 'pause'
  const tasks = run.counts as Record<string, number>

  const stop = (): Question => ({
    title: t('Stop {workflow}', { workflow: run.workflow }),
    text: t('Nothing new starts. What runs gets TERM, and KILL after its grace time.'),
    answer: t('Stop the run'),
    danger: true,
    reason: 'optional',
    act: (reason, key) => runVerb(run.id, 'stop', { reason }, key),
    done: t('The stop was asked for. Recover brings the run back.'),
  })
  const kill = (): Question => ({
    title: t('Kill {workflow}', { workflow: run.workflow }),
    text: t('{running} running tasks end at once, without a chance to clean up.', {
      running: tasks.running ?? 0,
    }),
    answer: t('Kill the run'),
    danger: true,
    reason: 'optional',
    act: (reason, key) => runVerb(run.id, 'kill', { reason }, key),
    done: t('The kill was asked for.'),
  })
  const pause = () =>
    act(
      () => runVerb(run.id, 'pause'),
      () =>
        toast(t('{workflow} is paused: nothing new starts.', { workflow: run.workflow }), {
          undo: () => act(() => runVerb(run.id, 'resume')),
        }),
    )
  const resume = () =>
    act(
      () => runVerb(run.id, 'resume'),
      () =>
        toast(t('{workflow} goes on.', { workflow: run.workflow }), {
          undo: () => act(() => runVerb(run.id, 'pause')),
        }),
    )
  const rerun = () =>
    act(
      () => runVerb(run.id, 'rerun') as Promise<Run>,
      (made) => {
        toast(t('A new run was started.'))
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
    {
      id: 'rerun',
      label: t('Run again, as a new run'),
      onAction: rerun,
      disabled: why('run.redo', true, ''),
    },
    {
      id: 'edit',
      label: t('Run again with other parameters…'),
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
      label: t('Compare with the last good run'),
      onAction: () => void navigate({ to: '/compare', search: { b: run.id } }),
    },
    {
      id: 'kill',
      label: t('Kill…'),
      onAction: () => asked.open('kill'),
      danger: true,
      disabled: why('run.control', active, t('The run has ended.')),
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
          {t('Recover')}
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
            {paused ? t('Resume') : t('Pause')}
          </VerbButton>
          <VerbButton
            verb="run.control"
            namespace={run.namespace}
            kind="danger"
            icon="stop"
            onPress={() => asked.open('stop')}
          >
            {t('Stop')}
          </VerbButton>
        </>
      ) : null}
      <Menu label={t('More verbs')} items={items} />
      <Confirm question={question} onClose={asked.close} />
    </>
  )
}
