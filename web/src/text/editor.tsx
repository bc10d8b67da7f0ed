// The text of a workflow file in CodeMirror. It is in a shadow root, where its styles are adopted style
// sheets, because the content security policy of the page allows only these.
import { autocompletion, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { type Diagnostic, lintGutter, setDiagnostics } from '@codemirror/lint'
import { unifiedMergeView } from '@codemirror/merge'
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search'
import { EditorState, type Extension } from '@codemirror/state'
import { EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { type Ref, useEffect, useImperativeHandle, useRef } from 'react'
import type { FileError } from '../api/types'
import { completer } from './complete'
import { inDocument, separatorOf } from './lineends'
import type { Change } from './plan'
import type { Schema } from './schema'

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--busy-text)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good-text)' },
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [tags.labelName, tags.typeName, tags.meta, tags.keyword], color: 'var(--warn-text)' },
])

const theme = EditorView.theme({
  '&': { height: '100%', fontSize: '12px', color: 'var(--text)', backgroundColor: 'var(--bg)' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '19px', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': {
    backgroundColor: 'var(--panel)',
    color: 'var(--muted)',
    borderRight: '1px solid var(--line)',
  },
  '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--hover) 60%, transparent)' },
  '&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '-2px' },
  '.cm-tooltip': {
    backgroundColor: 'var(--raised)',
    border: '1px solid var(--line-strong)',
    borderRadius: '4px',
    maxWidth: '420px',
  },
  '.cm-tooltip-autocomplete ul li[aria-selected]': {
    backgroundColor: 'var(--selected)',
    color: 'var(--text)',
  },
  '.cm-completionInfo': { padding: '6px 8px', fontFamily: 'var(--font)' },
  '.cm-selectionMatch': { backgroundColor: 'var(--warn-soft)' },
  '.cm-panels': { backgroundColor: 'var(--panel)', color: 'var(--text)' },
  '.cm-insertedLine, .cm-changedLine': { backgroundColor: 'var(--good-soft)' },
  '.cm-deletedChunk': { backgroundColor: 'var(--bad-soft)' },
  '.cm-changedText': { background: 'color-mix(in srgb, var(--good) 30%, transparent)' },
  '.cm-deletedChunk .cm-deletedText': { background: 'color-mix(in srgb, var(--bad) 30%, transparent)' },
  '.cm-collapsedLines': { backgroundColor: 'var(--panel)', color: 'var(--muted)', backgroundImage: 'none' },
})

const base: Extension[] = [lineNumbers(), yaml(), syntaxHighlighting(colours), theme]

export type EditorHandle = {
  /** Returns the present text, for which a plan is made. The page may show an older one. */
  text: () => string
  /** Makes a plan of changes one step that can be undone. */
  change: (changes: Change[]) => void
  /** Replaces the whole text, also as one step. */
  replace: (text: string) => void
  go: (from: number, to?: number) => void
}

export function TextEditor({
  initial,
  label,
  onChange,
  onApply,
  problems,
  schema,
  tasks,
  handle,
  isReadOnly = false,
}: {
  initial: string
  label: string
  onChange: (text: string) => void
  onApply: () => void
  problems: FileError[]
  schema: Schema | undefined
  tasks: string[]
  handle: Ref<EditorHandle>
  /** Keys change nothing. The text can be selected, searched and copied. */
  isReadOnly?: boolean
}) {
  const box = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView>(undefined)
  const latest = useRef({ onChange, onApply, schema, tasks })
  latest.current = { onChange, onApply, schema, tasks }
  // biome-ignore lint/correctness/useExhaustiveDependencies: the editor is made once, and has its own text then
  useEffect(() => {
    const host = box.current
    if (!host) return
    const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' })
    const apply = () => {
      latest.current.onApply()
      return true
    }
    const separator = separatorOf(initial)
    const editor = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: initial,
        extensions: [
          base,
          separator ? EditorState.lineSeparator.of(separator) : [],
          EditorState.readOnly.of(isReadOnly),
          history(),
          highlightActiveLine(),
          highlightSelectionMatches(),
          bracketMatching(),
          indentOnInput(),
          lintGutter(),
          autocompletion({
            override: [
              completer(
                () => latest.current.schema,
                () => latest.current.tasks,
              ),
            ],
          }),
          keymap.of([
            { key: 'Mod-Enter', run: apply },
            ...completionKeymap,
            ...searchKeymap,
            ...historyKeymap,
            ...defaultKeymap,
          ]),
          EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
          EditorView.updateListener.of((u) => {
            if (u.docChanged) latest.current.onChange(u.state.sliceDoc())
          }),
        ],
      }),
    })
    view.current = editor
    return () => {
      editor.destroy()
      view.current = undefined
    }
  }, [])
  useEffect(() => {
    const editor = view.current
    if (editor) editor.dispatch(setDiagnostics(editor.state, diagnostics(editor.state, problems)))
  }, [problems])
  useImperativeHandle(handle, () => ({
    text: () => view.current?.state.sliceDoc() ?? '',
    change: (changes) => {
      const editor = view.current
      if (!editor || editor.state.readOnly || changes.length === 0) return
      const at = placer(editor.state)
      const set = editor.state.changes(
        changes.map(({ from, to, insert }) => ({ from: at(from), to: at(to), insert })),
      )
      let last = 0
      set.iterChangedRanges((_a, _b, from) => {
        last = from
      })
      editor.dispatch({
        changes: set,
        effects: EditorView.scrollIntoView(last, { y: 'center' }),
        userEvent: 'input',
      })
    },
    replace: (text) => {
      const editor = view.current
      editor?.dispatch({
        changes: { from: 0, to: editor.state.doc.length, insert: text },
        userEvent: 'input',
      })
    },
    go: (from, to = from) => {
      const editor = view.current
      if (!editor) return
      const end = editor.state.doc.length
      const at = placer(editor.state)
      const [anchor, head] = [Math.min(at(from), end), Math.min(at(to), end)]
      editor.dispatch({
        selection: { anchor, head },
        effects: EditorView.scrollIntoView(anchor, { y: 'center' }),
      })
      editor.focus()
    },
  }))
  return <div ref={box} className="text-editor" />
}

/** Finds places of the text in the document of an editor. */
function placer(state: EditorState): (at: number) => number {
  const text = state.sliceDoc()
  return (at) => inDocument(text, state.facet(EditorState.lineSeparator), at)
}

function diagnostics(state: EditorState, problems: FileError[]): Diagnostic[] {
  return problems.flatMap((p) => {
    if (p.line < 1 || p.line > state.doc.lines) return []
    const line = state.doc.line(p.line)
    const from = Math.min(line.to, line.from + Math.max(0, p.column - 1))
    const word = /^[^\s,\]}:]+/.exec(line.text.slice(from - line.from))?.[0].length ?? 0
    const message = p.hint ? `${p.message} (${p.hint})` : p.message
    return [{ from, to: Math.min(line.to, from + word), severity: 'error' as const, message }]
  })
}

/** Shows one text as the edit of another. */
export function TextDiff({ from, to, label }: { from: string; to: string; label: string }) {
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const host = box.current
    if (!host) return
    const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' })
    const editor = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: to,
        extensions: [
          base,
          EditorState.readOnly.of(true),
          EditorView.editable.of(false),
          EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
          unifiedMergeView({
            original: from,
            mergeControls: false,
            collapseUnchanged: { margin: 3, minSize: 6 },
          }),
        ],
      }),
    })
    return () => editor.destroy()
  }, [from, to, label])
  return <div ref={box} className="text-diff" />
}
