# Runs docs/frameworks/typeorm.md.
cat >package.json <<'JSON'
{"name": "sample", "private": true, "type": "commonjs"}
JSON
npm install --silent --no-audit --no-fund typeorm pg reflect-metadata typescript@5 @types/node@20
cat >src/main.ts <<'TS'
import 'reflect-metadata'
import { DataSource, QueryFailedError } from 'typeorm'
import { Order, OutboxMessage, placeOrder } from './orders'

async function main() {
  const [url, query] = process.env.DATABASE_URL!.split('?')
  const schema = new URLSearchParams(query).get('search_path')!
  const db = await new DataSource({ type: 'postgres', url, schema, entities: [Order, OutboxMessage] }).initialize()
  await placeOrder(db, 'ada', 4200)
  await placeOrder(db, 'mallory', 1).catch((error) => {
    if (!(error instanceof QueryFailedError)) throw error
  })
  await db.destroy()
}

main().catch((error) => { console.error(error); process.exit(1) })
TS
npx tsc --target es2022 --module commonjs --moduleResolution node10 --strict --skipLibCheck \
  --experimentalDecorators --emitDecoratorMetadata --types node --outDir out src/main.ts
node out/main.js
