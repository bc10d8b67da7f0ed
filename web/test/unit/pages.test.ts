// Checks that each page of the router is examined for accessibility.
import { expect, test } from 'vitest'
import { makeRouter } from '../../src/app/router'
import { pages } from '../e2e/pages'

test('no page is left out', () => {
  const routes = Object.keys(makeRouter().routesByPath)
  const forms = routes.map((route) => ({
    route,
    form: new RegExp(`^${route.replace(/\/$/, '').replace(/\$\w+/g, '[^/]+') || '/'}$`),
  }))
  const opened = pages.map((p) => p.split('?')[0] ?? '')
  // The first page of the administration only leads to another one.
  const left = forms.filter(({ route, form }) => route !== '/admin' && !opened.some((p) => form.test(p)))
  expect(left.map(({ route }) => route)).toEqual([])
})
