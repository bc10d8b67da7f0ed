// Keeps streams of events open and reads them, in a thread of its own, so that this work does not delay the measurement.
import { Agent, request } from 'node:http'
import { parentPort, workerData } from 'node:worker_threads'

const { url, token, n } = workerData
const agent = new Agent({ keepAlive: false })
const headers = { Authorization: `Bearer ${token}` }
let bytes = 0

const opened = () =>
  new Promise((done, fail) => {
    const asked = request(url, { agent, headers }, (answer) => {
      if (answer.statusCode !== 200) return fail(new Error(`${url}: the node answered ${answer.statusCode}`))
      answer.on('data', (chunk) => {
        bytes += chunk.length
      })
      answer.on('close', () => {
        throw new Error('the node ended a stream')
      })
      done()
    })
    asked.on('error', fail)
    asked.end()
  })

for (let i = 0; i < n; i++) await opened()
parentPort.on('message', () => parentPort.postMessage(bytes))
parentPort.postMessage(bytes)
