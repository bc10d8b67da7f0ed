import fc from 'fast-check'
import { expect, test } from 'vitest'
import { bySlot, windowOf } from '../../src/kit/rows'

test('rows that stay on the screen keep their slots, and the slots keep their order', () => {
  fc.assert(
    fc.property(fc.nat(90_000), fc.integer({ min: 100, max: 900 }), fc.nat(5000), (top, height, n) => {
      const { first, count } = windowOf(Math.min(top, n * 24), height, 24, n)
      const slots = windowOf(0, height, 24, 1e6).count
      const inTurn = Array.from({ length: count }, (_, i) => first + i)
      const drawn = bySlot(inTurn, first, slots)
      expect([...drawn].sort((a, b) => a - b)).toEqual(inTurn)
      const order = drawn.map((row) => row % slots)
      expect(order).toEqual([...new Set(order)].sort((a, b) => a - b))
    }),
  )
})
