// A git repository behind HTTP on loopback, with a password, as a server of repositories has it.
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export type Repository = {
  url: string
  /** Writes files by name, removes those that are empty, and commits. */
  commit: (files: Record<string, string>) => void
  end: () => void
}

/** Serves a repository by the program git itself. A call without the user git and the password is refused. */
export async function repository(password: string): Promise<Repository> {
  const root = mkdtempSync(join(tmpdir(), 'skein-repo-'))
  const repo = join(root, 'flows')
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=ann', '-c', 'user.email=a@example.com', ...args], {
      cwd: root,
      encoding: 'utf8',
    })
  git('init', '-q', '-b', 'main', repo)
  const backend = join(git('--exec-path').trim(), 'git-http-backend')
  const wanted = `Basic ${Buffer.from(`git:${password}`).toString('base64')}`
  const server = createServer((call, answer) => {
    if (call.headers.authorization !== wanted) {
      answer.writeHead(401, { 'WWW-Authenticate': 'Basic realm="flows"' })
      answer.end()
      return
    }
    const { pathname, search } = new URL(call.url ?? '', 'http://x')
    const child = spawn(backend, [], {
      env: {
        PATH: process.env.PATH,
        GIT_PROJECT_ROOT: root,
        GIT_HTTP_EXPORT_ALL: '1',
        REQUEST_METHOD: call.method,
        PATH_INFO: pathname,
        QUERY_STRING: search.slice(1),
        CONTENT_TYPE: call.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: call.headers['content-encoding'] ?? '',
        GIT_PROTOCOL: String(call.headers['git-protocol'] ?? ''),
      },
    })
    call.pipe(child.stdin)
    const parts: Buffer[] = []
    child.stdout.on('data', (part) => parts.push(part))
    child.on('close', () => {
      const all = Buffer.concat(parts)
      const cut = all.indexOf('\r\n\r\n')
      const headers = Object.fromEntries(
        all
          .toString('latin1', 0, cut)
          .split('\r\n')
          .map((line) => line.split(/: (.*)/s).slice(0, 2)),
      )
      answer.writeHead(Number.parseInt(headers.Status ?? '200', 10), {
        'Content-Type': headers['Content-Type'] ?? 'text/plain',
      })
      answer.end(all.subarray(cut + 4))
    })
  })
  await new Promise<void>((up) => server.listen(0, '127.0.0.1', up))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/flows/.git`,
    commit: (files) => {
      for (const [name, text] of Object.entries(files)) {
        if (text === '') rmSync(join(repo, name))
        else writeFileSync(join(repo, name), text)
      }
      git('-C', repo, 'add', '-A')
      git('-C', repo, 'commit', '-q', '-m', 'change')
    },
    end: () => {
      server.close()
      rmSync(root, { recursive: true, force: true })
    },
  }
}
