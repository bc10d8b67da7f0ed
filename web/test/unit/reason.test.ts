import { expect, test } from 'vitest'
import { partsOf, withoutState } from '../../src/text/reason'

const run = '01a213b1-7b1c-7171-8a98-d1998ad95fee'

/**
 * Sentences as the server writes them, with their commands in brackets; commands that can be copied are in
 * double brackets.
 */
const sentences = [
  `[[skein run recover ${run}]] runs the failed tasks again; [skein run rerun] starts it as a new run`,
  `[[skein run rerun ${run}]] starts it as a new run`,
  `[[skein task approve ${run}/ok]], or with --reject`,
  `[[skein task retry ${run}/load_orders]]`,
  `the end of the delay, or [[skein task retry ${run}/transform.3]]`,
  `[skein task retry], skip or mark ${run}/load`,
  `the end of a run that has a queue slot, or a higher limit: [[skein queue set warehouse --limit N]]`,
  `[[skein queue resume warehouse]]`,
  `its end; [[skein explain ${run}]] shows what it waits for`,
  `[[skein run recover ${run} --from load]], or another run`,
  `such a run: [[skein run list --workflow feed]]`,
  `a worker for it: [[skein worker --group gpu]]`,
  'a person who answers',
]

test.each(sentences)('%s', (marked) => {
  const text = marked.replaceAll('[', '').replaceAll(']', '')
  const again = partsOf(text).map((p) => (p.isWhole ? `[[${p.text}]]` : p.isCommand ? `[${p.text}]` : p.text))
  expect(again.join('')).toBe(marked)
})

test('the reason of an end is said without the state', () => {
  expect(withoutState('it has ended: failed (task load failed: exit code 2)')).toBe(
    'task load failed: exit code 2',
  )
  expect(withoutState('it has ended: succeeded')).toBe('it has ended: succeeded')
  expect(withoutState('task ok waits for a person to approve')).toBe('task ok waits for a person to approve')
})
