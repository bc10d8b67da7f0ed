import fc from 'fast-check'
import { expect, test } from 'vitest'
import { centre, fit, resized, sees, zoom } from '../../src/canvas/camera'
import { boxHeight, boxWidth, instanceCounts, readDrawing, readStates } from '../../src/canvas/drawing'
import { find, neighbour, nextHit } from '../../src/canvas/find'
import { GraphPainter, levelOf, linesMax, type Pen, shorten, taskAt, visible } from '../../src/canvas/graph'
import type { Ink } from '../../src/canvas/ink'
import { packDrawing, packStates, type Spec, stateNames } from './packed'

const tone = (name: string) => ({ tone: `${name}`, soft: `${name}-soft` })
const ink: Ink = {
  ground: 'rgb(255, 255, 255)',
  box: 'box',
  line: 'rgb(200, 200, 200)',
  edge: 'edge',
  text: 'text',
  muted: 'muted',
  focus: 'focus',
  selected: 'selected',
  font: 'sans',
  tones: {
    good: tone('good'),
    busy: tone('busy'),
    calm: tone('calm'),
    warn: tone('warn'),
    bad: tone('bad'),
    over: tone('over'),
  },
}

const shop: Spec[] = [
  { name: 'extract', needs: [], column: 0, y: 20 },
  { name: 'clean_eu', needs: [0], column: 1, y: 0, kind: 6 },
  { name: 'clean_us', needs: [0], column: 1, y: 40 },
  { name: 'löschen', needs: [1, 2], column: 2, y: 20, kind: 2 },
]

const layers = fc
  .tuple(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 30 }), fc.infiniteStream(fc.nat()))
  .map(([columns, rows, random]): Spec[] =>
    Array.from({ length: columns * rows }, (_, t) => {
      const column = Math.floor(t / rows)
      const needs = column === 0 ? [] : [(column - 1) * rows + ((random.next().value as number) % rows)]
      return { name: `task_${t}`, needs, column, y: (t % rows) * 40 }
    }),
  )

test('a packed drawing is read as it was packed', () => {
  const d = readDrawing(packDrawing(shop))
  expect(d.names).toEqual(shop.map((t) => t.name))
  expect([...d.x]).toEqual([0, 220, 220, 440])
  expect([...d.y]).toEqual([20, 0, 40, 20])
  expect(d.kinds[d.kind[3] ?? 0]).toBe('approval')
  expect([...d.needs]).toEqual([0, 0, 1, 2])
  expect([...d.next]).toEqual([1, 2, 3, 3])
  expect([d.width, d.height]).toEqual([440 + boxWidth, 40 + boxHeight])
  expect(() => readDrawing(packDrawing(shop).slice(0, 40))).toThrow('too early')
})

test('states cover the instances of a foreach task', () => {
  const packed = packStates(
    stateNames,
    [
      ['succeeded', 4],
      ['failed', 1],
      ['succeeded', 2],
    ],
    [[1, 3]],
  )
  const s = readStates(packed, 4)
  expect([...instanceCounts(s, 1)]).toEqual([
    ['failed', 1],
    ['succeeded', 2],
  ])
  expect(instanceCounts(s, 2).size).toBe(0)
})

test('find: names, states, kinds, and all that depend on a task or that it needs', () => {
  const d = readDrawing(packDrawing(shop))
  const s = readStates(
    packStates(stateNames, [
      ['succeeded', 2],
      ['failed', 1],
      ['upstream_failed', 1],
    ]),
    4,
  )
  const names = (q: string) => d.names.filter((_, t) => find(d, s, q)?.[t])
  expect(find(d, s, '  ')).toBeUndefined()
  expect(names('CLEAN')).toEqual(['clean_eu', 'clean_us'])
  expect(names('state:failed')).toEqual(['clean_us'])
  expect(names('kind:approval')).toEqual(['löschen'])
  expect(names('clean_us>')).toEqual(['clean_us', 'löschen'])
  expect(names('>clean_us')).toEqual(['extract', 'clean_us'])
  expect(names('clean >löschen')).toEqual(['clean_eu', 'clean_us'])
  const hits = find(d, s, 'clean') as Uint8Array
  expect(nextHit(d, hits, undefined, 1)).toBe(1)
  expect(nextHit(d, hits, 2, 1)).toBe(1)
  expect(nextHit(d, hits, 1, -1)).toBe(2)
})

test('arrow keys go along the edges and within a column', () => {
  const d = readDrawing(packDrawing(shop))
  expect(neighbour(d, 1, 'ArrowDown')).toBe(2)
  expect(neighbour(d, 1, 'ArrowUp')).toBeUndefined()
  expect(neighbour(d, 1, 'ArrowRight')).toBe(3)
  expect(neighbour(d, 3, 'ArrowLeft')).toBe(1)
  expect(neighbour(d, 3, 'ArrowRight')).toBeUndefined()
})

test('zooming keeps the point under the pointer, and every task is where it is clicked', () => {
  const view = { width: 800, height: 600 }
  fc.assert(
    fc.property(layers, fc.integer({ min: -4, max: 4 }), fc.nat(), (specs, power, pick) => {
      const d = readDrawing(packDrawing(specs))
      const start = fit(d, view)
      const near = zoom(start, 2 ** power, 300, 200, start.scale)
      expect((300 - near.x) / near.scale).toBeCloseTo((300 - start.x) / start.scale, 6)
      const t = pick % d.n
      const at = centre(near, (d.x[t] ?? 0) + boxWidth / 2, (d.y[t] ?? 0) + boxHeight / 2, view)
      expect(sees(at, (d.x[t] ?? 0) + boxWidth / 2, (d.y[t] ?? 0) + boxHeight / 2, view)).toBe(true)
      expect(taskAt(d, at, 400, 300)).toBe(t)
      expect([...visible(d, at, view)]).toContain(t)
    }),
  )
})

test('the tasks in view are those whose boxes touch it', () => {
  const view = { width: 300, height: 200 }
  fc.assert(
    fc.property(
      layers,
      fc.integer({ min: -600, max: 600 }),
      fc.integer({ min: -600, max: 600 }),
      (specs, x, y) => {
        const d = readDrawing(packDrawing(specs))
        const camera = { scale: 0.5, x, y }
        const seen = new Set(visible(d, camera, view))
        for (let t = 0; t < d.n; t++) {
          const [left, top] = [(d.x[t] ?? 0) * 0.5 + x, (d.y[t] ?? 0) * 0.5 + y]
          const touches = left + boxWidth / 2 > 0 && left < 300 && top + boxHeight / 2 > 0 && top < 200
          if (touches) expect(seen.has(t)).toBe(true)
        }
      },
    ),
  )
})

/** Records what is drawn as text: calls with their arguments, and the colours that they use. */
function recorder(): { pen: Pen; lines: string[] } {
  const lines: string[] = []
  const values: Record<string, unknown> = {}
  const show = (v: unknown) =>
    typeof v === 'number' ? Math.round(v * 100) / 100 : Array.isArray(v) ? `[${v}]` : v
  const pen = new Proxy(values, {
    set(_, name: string, value) {
      values[name] = value
      return true
    },
    get(_, name: string) {
      if (name in values) return values[name]
      return (...args: unknown[]) => {
        if (name === 'createImageData') {
          const [width, height] = args as [number, number]
          return { width, height, data: new Uint8ClampedArray(width * height * 4) }
        }
        if (name === 'putImageData') {
          lines.push(`image of ${new Set(new Uint32Array((args[0] as ImageData).data.buffer)).size} colours`)
          return undefined
        }
        const colour = name.startsWith('fill')
          ? ` ${values.fillStyle}`
          : name === 'stroke'
            ? ` ${values.strokeStyle}`
            : ''
        if (!['save', 'restore', 'beginPath', 'setLineDash'].includes(name))
          lines.push(`${name} ${args.map(show).join(' ')}${colour}`)
        return undefined
      }
    },
  })
  return { pen: pen as unknown as Pen, lines }
}

test.each(['boxes', 'blocks', 'overview'])('what is drawn: %s', (level) => {
  const drawing = readDrawing(packDrawing(shop))
  const spans: [string, number][] = [
    ['succeeded', 1],
    ['running', 1],
    ['failed', 1],
    ['upstream_failed', 1],
    ['failed', 1],
    ['succeeded', 2],
  ]
  const states = readStates(packStates(stateNames, spans, [[1, 3]]), 4)
  const scale = { boxes: 1, blocks: 0.3, overview: 0.05 }[level] as number
  expect(levelOf(scale)).toBe(level)
  const { pen, lines } = recorder()
  const scene = {
    drawing,
    states,
    selected: 2,
    hits: level === 'blocks' ? find(drawing, states, 'clean') : undefined,
  }
  new GraphPainter().paint(pen, scene, { scale, x: 10, y: 10 }, { width: 700, height: 120 }, ink, 1)
  expect(lines.join('\n')).toMatchSnapshot()
})

test.each(['boxes', 'blocks', 'overview'])('what is drawn of a comparison: %s', (level) => {
  const plain = readDrawing(packDrawing(shop))
  const drawing = {
    ...plain,
    kinds: plain.kinds.map((k, i) => (i === plain.kind[3] ? 'chain' : k)),
    members: [[0], [1], [], [2, 3]].map((list) => Uint32Array.from(list)),
    changes: Uint8Array.from([0, 1, 2, 3]),
    edgeChanges: Uint8Array.from(plain.needs, (_, i) => i % 3),
  }
  const { pen, lines } = recorder()
  const scale = { boxes: 1, blocks: 0.3, overview: 0.05 }[level] as number
  new GraphPainter().paint(pen, { drawing }, { scale, x: 10, y: 10 }, { width: 700, height: 120 }, ink, 1)
  expect(lines.join('\n')).toMatchSnapshot()
})

test('a frame draws a sample of too many edges', () => {
  const specs: Spec[] = Array.from({ length: 400 }, (_, t) => ({
    name: `t${t}`,
    column: t < 200 ? 0 : 1,
    y: (t % 200) * 40,
    needs: t < 200 ? [] : Array.from({ length: 100 }, (_, i) => i * 2),
  }))
  const drawing = readDrawing(packDrawing(specs))
  const { pen, lines } = recorder()
  new GraphPainter().paint(
    pen,
    { drawing },
    fit(drawing, { width: 800, height: 600 }),
    { width: 800, height: 600 },
    ink,
    1,
  )
  const drawn = lines.filter((l) => l.startsWith('lineTo')).length
  expect(drawn).toBeGreaterThan(linesMax / 8)
  expect(drawn).toBeLessThanOrEqual(linesMax)
})

test('long names keep both ends', () => {
  expect(shorten('load', 10)).toBe('load')
  expect(shorten('load_customers_of_region_eu', 13)).toBe('load_cus…n_eu')
})

test('what is in the middle of a graph stays there when a pane opens beside it', () => {
  const wide = { width: 1000, height: 600 }
  const narrow = { width: 440, height: 340 }
  const camera = centre({ scale: 1, x: 0, y: 0 }, 700, 300, wide)
  expect(resized(camera, wide, narrow)).toEqual(centre({ scale: 1, x: 0, y: 0 }, 700, 300, narrow))
})
