import { EditorState } from '@codemirror/state'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { inDocument, separatorOf } from '../../src/text/lineends'

const texts = fc.array(fc.constantFrom('a', 'b: 1', '', '\n', '\r\n', '\r')).map((parts) => parts.join(''))

test('the document of an editor keeps each line end, and a place of the text is found in it', () => {
  fc.assert(
    fc.property(texts, fc.nat(), fc.constantFrom('x', '\n', '\r\n'), (text, n, insert) => {
      const separator = separatorOf(text)
      const extensions = separator ? EditorState.lineSeparator.of(separator) : []
      const state = EditorState.create({ doc: text, extensions })
      expect(state.sliceDoc()).toBe(text)
      let at = n % (text.length + 1)
      if (text.slice(at - 1, at + 1) === '\r\n') at-- // No edit begins inside a line end.
      if (insert === '\r\n' && !text.includes('\r\n')) return
      const changes = state.changes({ from: inDocument(text, separator, at), insert })
      expect(state.update({ changes }).state.sliceDoc()).toBe(text.slice(0, at) + insert + text.slice(at))
    }),
  )
})
