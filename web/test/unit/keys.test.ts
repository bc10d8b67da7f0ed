// Keys: a chord of the shell comes before a single key of the page that is shown.
import { act, createElement } from 'react'
import { createRoot } from 'react-dom/client'
import { expect, test, vi } from 'vitest'
import { onKey, useKeys } from '../../src/app/keys'

vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true)

test('g r goes to the runs where r alone recovers', async () => {
  const did: string[] = []
  const Page = () => {
    useKeys({ r: () => did.push('recover') })
    return null
  }
  const Shell = ({ open }: { open: boolean }) => {
    useKeys({ 'g r': () => did.push('runs') })
    return open ? createElement(Page) : null
  }
  const root = createRoot(document.createElement('div'))
  for (const open of [false, true]) await act(async () => root.render(createElement(Shell, { open })))
  const press = (key: string, at: number) => onKey(new KeyboardEvent('keydown', { key }), at)
  press('r', 1_000)
  press('g', 10_000)
  press('r', 10_500)
  press('g', 20_000)
  press('r', 25_000) // too late for the chord
  await act(async () => root.unmount())
  expect(did).toEqual(['recover', 'runs', 'recover'])
})
