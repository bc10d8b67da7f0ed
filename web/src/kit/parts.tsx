// Small parts that every page uses.
import { Link } from '@tanstack/react-router'
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from 'react'
import { Button as AriaButton, type ButtonProps, Tooltip, TooltipTrigger } from 'react-aria-components'
import { byCode, ruleWords, t } from '../text/t'
import { ago, clock, duration, full, shortID } from './format'
import { Icon } from './icons'
import { lookOf } from './states'

/** Draws a state as glyph, colour and fill. */
export function Mark({ state, size = 16 }: { state: string; size?: number }) {
  const { tone, fill, glyph } = lookOf(state)
  return (
    <span className="mark" data-tone={tone} data-fill={fill}>
      <Icon name={glyph} size={size - 4} />
    </span>
  )
}

/** The tabs of a page. On a small screen they scroll sideways, and the present one is in view. */
export function Tabs({ label, children }: { label: string; children: ReactNode }) {
  const nav = useRef<HTMLElement>(null)
  const shown = useRef<Element>(null)
  useLayoutEffect(() => {
    const all = nav.current
    const current = all?.querySelector('[aria-current]')
    if (!all || !current || current === shown.current) return // a person may have scrolled
    shown.current = current
    const [tab, room] = [current.getBoundingClientRect(), all.getBoundingClientRect()]
    all.scrollLeft += Math.max(0, tab.right - room.right) + Math.min(0, tab.left - room.left)
  })
  return (
    <nav className="tabs" aria-label={label} ref={nav}>
      {children}
    </nav>
  )
}

/** A state in words, with its mark. */
export function State({ state, children }: { state: string; children?: ReactNode }) {
  const { tone, label } = lookOf(state)
  return (
    <span className="state" data-tone={tone}>
      <Mark state={state} />
      <span>{children ?? label}</span>
    </span>
  )
}

type End = {
  cause: string | null
  message: string | null
  exit_code?: number | null
  signal?: string | null
  failed_tasks?: string[]
}

/** Causes that say, with the values behind them, all that their messages say. */
const enough = new Set(['ask', 'on_lost', 'overdue', 'start_from'])

/**
 * The reason of an end. In another language than English, the cause is shown in words, followed by the
 * message of the server if that says more.
 */
export function Message({ of }: { of: End }) {
  const values = { exit_code: of.exit_code, signal: of.signal, tasks: of.failed_tasks?.join('、') }
  const cause = of.cause ? byCode(`cause.${of.cause}`, values) : undefined
  const message = cause && enough.has(of.cause ?? '') ? '' : (of.message ?? '')
  return (
    <>
      {cause}
      {message ? (
        <span lang="en" title={message}>
          {cause ? ` (${message})` : message}
        </span>
      ) : null}
    </>
  )
}

/** The rule of a trigger in words. */
export function RuleWords({ s }: { s: { kind: string; expression: string; description: string } }) {
  const words = ruleWords(s)
  return <span lang={words ? undefined : 'en'}>{words ?? s.description}</span>
}

export type Kind = 'plain' | 'primary' | 'danger' | 'quiet'

export function Button({
  kind = 'plain',
  icon,
  hint,
  children,
  ...rest
}: Omit<ButtonProps, 'children'> & {
  kind?: Kind
  icon?: string
  hint?: string
  children?: ReactNode
}) {
  const button = (
    <AriaButton
      {...rest}
      className="button"
      data-kind={kind}
      data-icon={icon && !children ? 'only' : undefined}
    >
      {icon ? <Icon name={icon} /> : null}
      {children}
    </AriaButton>
  )
  if (!hint) return button
  return (
    <TooltipTrigger delay={400}>
      {button}
      <Tooltip className="tooltip" offset={6}>
        {hint}
      </Tooltip>
    </TooltipTrigger>
  )
}

let tickers = new Set<(now: number) => void>()
let ticking: ReturnType<typeof setInterval> | undefined

/** Gives the present time, at most once a second, from one timer for the whole page. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    tickers.add(setNow)
    ticking ??= setInterval(() => {
      if (document.visibilityState === 'visible') for (const tick of tickers) tick(Date.now())
    }, 1000)
    return () => {
      tickers = new Set([...tickers].filter((tick) => tick !== setNow))
      if (tickers.size === 0) {
        clearInterval(ticking)
        ticking = undefined
      }
    }
  }, [])
  return now
}

/** An instant, as the time since or until it. The tooltip has it in full. */
export function Ago({ time }: { time: string | null | undefined }) {
  const now = useNow()
  if (!time) return <span className="muted">–</span>
  return (
    <time dateTime={time} title={full(time)}>
      {ago(time, now)}
    </time>
  )
}

/** An instant as a time of day, in the viewer's zone. */
export function Clock({ time }: { time: string | null | undefined }) {
  if (!time) return <span className="muted">–</span>
  return (
    <time dateTime={time} title={full(time)}>
      {clock(time)}
    </time>
  )
}

/** How long something took, or has taken so far. */
export function Span({ from, to }: { from: string | null | undefined; to?: string | null }) {
  if (!from) return <span className="muted">–</span>
  if (to) return <>{duration(Date.parse(to) - Date.parse(from))}</>
  return <Running from={from} />
}

function Running({ from }: { from: string }) {
  const now = useNow()
  return <>{duration(Math.max(0, now - Date.parse(from)))}</>
}

/** Makes a link the current one only if its whole search part is that of the page. */
export const exactly = { exact: true, includeSearch: true, explicitUndefined: true } as const

export function RunLink({ id, task, children }: { id: string; task?: string; children?: ReactNode }) {
  return (
    <Link to="/r/$id" params={{ id }} search={task ? { task } : {}} className={children ? undefined : 'mono'}>
      {children ?? shortID(id)}
    </Link>
  )
}

export function WorkflowLink({ name, tab, children }: { name: string; tab?: string; children?: ReactNode }) {
  const [ns, own] = name.includes('/') ? (name.split('/') as [string, string]) : ['default', name]
  return (
    <Link to="/w/$ns/$name" params={{ ns, name: own }} search={tab ? { tab } : {}}>
      {children ?? name}
    </Link>
  )
}

/** A link to the page of a trigger. */
export function TriggerLink({ workflow, name }: { workflow: string; name: string }) {
  const [ns, own] = workflow.includes('/') ? (workflow.split('/') as [string, string]) : ['default', workflow]
  return (
    <Link to="/t/$ns/$workflow/$trigger" params={{ ns, workflow: own, trigger: name }}>
      {name}
    </Link>
  )
}

export function Copy({ text, label = t('Copy') }: { text: string; label?: string }) {
  const [done, setDone] = useState(false)
  useEffect(() => {
    if (!done) return
    const timer = setTimeout(() => setDone(false), 1500)
    return () => clearTimeout(timer)
  }, [done])
  return (
    <Button
      kind="quiet"
      icon={done ? 'check' : 'copy'}
      aria-label={done ? t('Copied') : label}
      hint={done ? t('Copied') : label}
      onPress={() => void navigator.clipboard?.writeText(text).then(() => setDone(true))}
    />
  )
}

/** The command of the command line with the same effect. */
export function Command({ text }: { text: string }) {
  return (
    <div className="command">
      {/* A long command is scrolled, also by keys. */}
      <code tabIndex={0}>{text}</code>
      <Copy text={text} label={t('Copy the command')} />
    </div>
  )
}

export function Field({ label, children }: { label: ReactNode; children: ReactNode }) {
  return (
    <>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </>
  )
}
