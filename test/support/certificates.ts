import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A self-signed certificate for these names (`DNS:…`, `IP:…`), and its key, as PEM. */
export function selfSigned(names: string): { cert: string; key: string } {
  const folder = mkdtempSync(join(tmpdir(), 'certificate-'))
  try {
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
    const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
    const subject = ['-days', '2', '-subj', '/CN=test', '-addext', `subjectAltName=${names}`]
    execFileSync('openssl', ['req', '-x509', ...ec, '-keyout', key, '-out', cert, ...subject], {
      stdio: 'pipe',
    })
    return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
  } finally {
    rmSync(folder, { recursive: true })
  }
}
