import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { looks } from '../../src/kit/states'
import { deltaE, lab, visions } from './vision'

const css = readFileSync('src/kit/tokens.css', 'utf8')
const pairs = new Map(
  [...css.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)].map((m) => [m[1], [m[2], m[3]]]),
)

test('the distance of colours is that of CIEDE2000', () => {
  // From the data of Sharma, Wu and Dalal (2005).
  expect(deltaE([50, 2.6772, -79.7751], [50, 0, -82.7485])).toBeCloseTo(2.0425, 4)
  expect(deltaE([50, 2.5, 0], [73, 25, -18])).toBeCloseTo(27.1492, 4)
  expect(deltaE([50, -1, 2], [50, 0, 0])).toBeCloseTo(2.3669, 4)
  expect(deltaE([2.0776, 0.0795, -1.135], [0.9033, -0.0636, -0.5514])).toBeCloseTo(0.9082, 4)
})

test.each([0, 1])('states of one fill differ in colour for every kind of vision (theme %i)', (theme) => {
  const near: string[] = []
  for (const fill of ['solid', 'outline', 'hatch', 'dashed']) {
    const tones = [...new Set(Object.values(looks).flatMap((l) => (l.fill === fill ? [l.tone] : [])))]
    for (const vision of visions)
      for (const [i, a] of tones.entries())
        for (const b of tones.slice(0, i)) {
          const [x, y] = [pairs.get(a)?.[theme] ?? '', pairs.get(b)?.[theme] ?? '']
          const d = deltaE(lab(x, vision), lab(y, vision))
          if (!(d >= 10)) near.push(`${fill} ${a} and ${b}: ${d.toFixed(1)} (${vision})`)
        }
  }
  expect(near).toEqual([])
})
