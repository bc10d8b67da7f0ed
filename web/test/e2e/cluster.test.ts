// Flows on a real cluster: two nodes on PostgreSQL.
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Cluster, cluster } from './cluster'
import * as harness from './harness'

let town: Cluster
let browser: Browser
const stops: (() => unknown)[] = []

beforeAll(async () => {
  town = await cluster(stops)
  browser = await harness.launch()
})

afterAll(async () => {
  await browser?.close()
  for (const stop of stops.reverse()) await stop()
})

async function logLevel(node: string): Promise<string> {
  const answer = await harness.ask(`${town.base}/api/v1/nodes/${node}/log-level`)
  return ((await answer.json()) as { level: string }).level
}

test('a member of a cluster is drained, gives its shards away, and takes work again', async () => {
  const { context, wrong } = await harness.contextOf(browser, town.base)
  const page = await harness.open(context, `${town.base}/cluster`)
  const row = page
    .getByRole('row')
    .filter({ hasText: 'n2', has: page.getByRole('button', { name: /Drain|Uncordon/ }) })
  await row.getByRole('button', { name: 'Drain' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Drain the node' }).click()
  await row.getByText('Drained').waitFor()
  const { shards } = (await (await harness.ask(`${town.base}/api/v1/nodes/n2`)).json()) as {
    shards: { owned: number }
  }
  expect(shards.owned).toBe(0)
  await row.getByRole('button', { name: 'Uncordon' }).click()
  await row.getByText('Active').waitFor()
  // The page of the node. The level of its log is set through the other node.
  await row.getByRole('link', { name: 'n2' }).click()
  await page.waitForURL(/\/n\/n2$/)
  const level = page.getByRole('combobox', { name: 'Level' })
  await expect.poll(() => level.inputValue()).toBe('info')
  await level.selectOption('debug')
  const toast = page.locator('.toast', { hasText: 'n2 logs debug' })
  await toast.waitFor()
  expect(await logLevel('n2')).toBe('debug')
  await toast.getByRole('button', { name: 'Undo' }).click()
  await expect.poll(() => level.inputValue()).toBe('info')
  await expect.poll(() => logLevel('n2')).toBe('info')
  expect(wrong).toEqual([])
  await context.close()
})

test('the node that serves a page is killed: the page is right again by the other one, without a reload', async () => {
  await harness.apply(town.base, 'ping', 'name: ping\ntasks:\n  a: {run: "true"}\n')
  const { context } = await harness.contextOf(browser, town.base)
  const page = await harness.open(context, `${town.base}/runs?workflow=ping`)
  await page.locator('.fresh[data-state="live"]').waitFor()
  await page.evaluate(() => Object.assign(window, { stays: true }))
  await town.kill(0)
  const { id } = await harness.call(town.nodes[1] as string, '/runs', { workflow: 'ping' })
  expect(await harness.ended(town.nodes[1] as string, id)).toBe('succeeded')
  await page.getByRole('row').filter({ hasText: 'Succeeded' }).waitFor()
  await page.locator('.fresh[data-state="live"]').waitFor()
  expect(await page.evaluate(() => 'stays' in window)).toBe(true)
  await context.close()
})
