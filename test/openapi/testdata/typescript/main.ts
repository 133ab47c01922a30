// A program that somebody wrote against the generated types: the compiler checks every
// path, parameter, body and answer of it with the document.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[]; exitCode: number };

type Delivery = components["schemas"]["Delivery"];

const [, , server, key, destination] = process.argv as [string, string, string, string, string];
const client = createClient<paths>({ baseUrl: server, headers: { Authorization: `Bearer ${key}` } });

function check(holds: boolean, what: string, seen: unknown): asserts holds {
  if (!holds) throw new Error(`${what}: ${JSON.stringify(seen)}`);
}

// begin makes a tenant and an endpoint. What is null comes out as null.
async function begin(): Promise<{ tenant: string; endpoint: string }> {
  const tenant = await client.POST("/v1/tenants", { body: { name: "Generated in TypeScript" } });
  check(tenant.data !== undefined, "create tenant", tenant.error);
  const uid: string | null = tenant.data.uid;
  check(uid === null, "a tenant without a uid", tenant.data);
  const endpoint = await client.POST("/v1/tenants/{tenant}/endpoints", {
    params: { path: { tenant: tenant.data.id } },
    body: { url: destination, types: ["order.*"], uid: "orders" },
  });
  check(endpoint.data !== undefined, "create endpoint", endpoint.error);
  const { id, status_reason, filter, secret } = endpoint.data;
  check(endpoint.data.uid === "orders" && status_reason === null && filter === null && secret.startsWith("whsec_"), "endpoint", endpoint.data);
  return { tenant: tenant.data.id, endpoint: id };
}

async function send(tenant: string, number: number): Promise<void> {
  const sent = await client.POST("/v1/tenants/{tenant}/events", {
    params: { path: { tenant }, header: { "Idempotency-Key": `ts-${number}` } },
    body: { type: "order.paid", payload: { number } },
  });
  check(sent.data?.deliveries === 1, "send event", sent);
}

// deliver waits for the delivery of the only event, and reads it.
async function deliver(tenant: string, endpoint: string): Promise<string> {
  const until = Date.now() + 90_000;
  let seen: Delivery | undefined;
  do {
    const list = await client.GET("/v1/tenants/{tenant}/deliveries", { params: { path: { tenant }, query: { endpoint: [endpoint] } } });
    check(list.data?.data.length === 1, "list deliveries", list);
    seen = list.data.data[0];
    if (seen?.status !== "pending") break;
    await new Promise<void>((go) => setTimeout(go, 20));
  } while (Date.now() < until);
  check(seen?.status === "delivered", "the delivery", seen);
  const one = await client.GET("/v1/tenants/{tenant}/deliveries/{delivery}", { params: { path: { tenant, delivery: seen.id } } });
  check(one.data !== undefined, "get delivery", one.error);
  const code: number | null | undefined = one.data.last?.status_code;
  check(code === 200 && typeof one.data.settled_at === "string", "the delivery", one.data);
  check(one.data.replay === null && one.data.reason === null && one.data.expires_at === null, "what is null", one.data);
  return one.data.id;
}

// refused asks for what there is not, and for what may not be.
async function refused(tenant: string): Promise<{ not_found: string; invalid: string; field: string }> {
  const missing = await client.GET("/v1/tenants/{tenant}/endpoints/{endpoint}", { params: { path: { tenant, endpoint: "ep_0000000000000" } } });
  check(missing.response.status === 404 && missing.error !== undefined, "get what there is not", missing);
  const wrong = await client.POST("/v1/tenants/{tenant}/endpoints", { params: { path: { tenant } }, body: { url: "ftp://example.com" } });
  check(wrong.response.status === 422 && wrong.error !== undefined, "create what may not be", wrong);
  return { not_found: missing.error.code, invalid: wrong.error.code, field: wrong.error.errors?.[0]?.path ?? "" };
}

// leaf reads a list page by page.
async function leaf(tenant: string): Promise<{ events: string[]; pages: number }> {
  for (let number = 2; number <= 5; number += 1) await send(tenant, number);
  const events: string[] = [];
  let cursor: string | undefined;
  for (let pages = 1; pages <= 10; pages += 1) {
    const page = await client.GET("/v1/tenants/{tenant}/events", { params: { path: { tenant }, query: { limit: 2, cursor } } });
    check(page.data !== undefined, "list events", page.error);
    events.push(...page.data.data.map((event) => event.id));
    if (page.data.next_cursor === null) return { events, pages };
    cursor = page.data.next_cursor;
  }
  throw new Error("the list has no end");
}

const { tenant, endpoint } = await begin();
await send(tenant, 1);
const delivery = await deliver(tenant, endpoint);
console.log(JSON.stringify({ tenant, endpoint, delivery, ...(await refused(tenant)), ...(await leaf(tenant)) }));
