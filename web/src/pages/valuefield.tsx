// A field for one typed value, for the forms of runs and of approvals.

import { useId } from 'react'
import type { Param } from '../api/types'
import { t } from '../text/t'
import { textOf } from './startdata'

const radiosMax = 5

/** The question of a field. The format text stands for a text of several lines. */
export type Asked = Pick<Param, 'name' | 'type' | 'required' | 'enum' | 'format' | 'description' | 'default'>

type Props = { p: Asked; value: string; fault: string | undefined; set: (v: string) => void }

/** A field for one value: a parameter of a run, or a field of the form of an approval. */
export function ValueField(props: Props) {
  const { p, fault: wrong } = props
  const choices = p.type === 'bool' ? ['true', 'false'] : (p.enum as unknown[] | null)?.map(textOf)
  const radios = choices && choices.length <= radiosMax
  const Frame = radios ? 'fieldset' : 'label'
  const Name = radios ? 'legend' : 'span'
  return (
    <Frame className="field">
      <Name>
        {p.name} {p.required ? <small>{t('required')}</small> : null}
      </Name>
      {radios ? <Radios {...props} choices={choices} /> : <Entry {...props} choices={choices} />}
      <small>
        {p.format ?? p.type}
        {p.description ? `: ${p.description}` : ''}
        {p.default === null || p.default === undefined
          ? ''
          : ` · ${t('default {value}', { value: textOf(p.default) || t('empty') })}`}
      </small>
      {wrong ? (
        <span className="error" role="alert">
          {wrong}
        </span>
      ) : null}
    </Frame>
  )
}

function Radios({ p, value, set, choices }: Props & { choices: string[] }) {
  const group = useId()
  const all = p.required ? choices : ['', ...choices]
  return (
    <span className="row">
      {all.map((c) => (
        <label key={c} className="row">
          <input type="radio" name={group} checked={value === c} onChange={() => set(c)} />
          {c === '' ? <span className="muted">{t('default')}</span> : c}
        </label>
      ))}
    </span>
  )
}

function Entry({ p, value, set, choices, fault: wrong }: Props & { choices: string[] | undefined }) {
  const common = {
    value,
    required: p.required,
    'aria-invalid': wrong ? true : undefined,
    onChange: (e: { target: { value: string } }) => set(e.target.value),
  }
  if (choices)
    return (
      <select className="select" {...common}>
        <option value="">{p.required ? t('choose') : t('default')}</option>
        {choices.map((c) => (
          <option key={c}>{c}</option>
        ))}
      </select>
    )
  if (p.type === 'json' || p.format === 'text')
    return (
      <textarea
        className={p.type === 'json' ? 'input mono' : 'input'}
        rows={4}
        spellCheck={p.type !== 'json'}
        {...common}
      />
    )
  const number = p.type === 'int' || p.type === 'float'
  return (
    <input
      className="input"
      type={p.type === 'secret' ? 'password' : p.format === 'date' ? 'date' : 'text'}
      autoComplete={p.type === 'secret' ? 'off' : undefined}
      inputMode={number ? 'decimal' : undefined}
      placeholder={textOf(p.default)}
      {...common}
    />
  )
}
