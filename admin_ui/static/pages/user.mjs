import { html } from "../lib/html.mjs";
import { Act, Card, Facts, Loading, Pill } from "../components/bits.mjs";
import { Gone, Refused, Title } from "../components/detail.mjs";
import { Limits, Permissions } from "../components/rights.mjs";
import { Table } from "../components/table.mjs";
import { useGet } from "../lib/api.mjs";
import { href } from "../lib/location.mjs";
import { documentPath, vhostPath } from "../lib/routes.mjs";

export function User({ route, me }) {
  const { name } = route;
  // The list is asked, because a user who is not there is no error of the page.
  const users = useGet("/api/users", 10);
  const user = users.data?.find((one) => one.name === name);
  const path = user ? documentPath("users", name) : null;
  const permissions = useGet(path && `${path}/permissions`, 10).data;
  const topics = useGet(path && `${path}/topic-permissions`, 10).data;
  if (users.error) return html`<${Refused} error=${users.error} />`;
  if (!users.data) return html`<${Loading} rows=${8} />`;
  if (!user) return html`<${Gone} noun="user" name=${name} list="users" />`;
  const free = me.vhosts.filter((vhost) => !permissions?.some((one) => one.vhost === vhost));
  const acts = html`
    <${Act} act="admin.setPassword" what=${{ name, tags: user.tags }}>Set the password<//>
    <${Act} act="admin.setTags" what=${{ user }}>Set the tags<//>
    <${Act} act="admin.deleteUser" danger what=${{ name, self: name === me.name }}>Delete<//>`;
  return html`<div class="detail">
    <${Title} kind="User" name=${name} pills=${user.tags.length ? user.tags : ["no tags"]} acts=${acts} />
    <${Permissions} rows=${permissions} by="vhost" none="This user can enter no virtual host."
      add=${free.length > 0 && html`<${Act} act="admin.setPermission" what=${{ user: name, vhosts: free }}>Give a permission<//>`} />
    <${Topics} rows=${topics} user=${name} vhosts=${me.vhosts} />
    <${Limits} kind="user" name=${name} limits=${user.limits} may />
    <${Card} title="Password" id="password">
      <${Facts} facts=${[
        ["Password", user.password_hash ? "set" : "none: nobody can log in with one"],
        ["Stored as", user.hashing_algorithm],
      ]} />
    <//>
  </div>`;
}

function Topics({ rows, user, vhosts }) {
  const columns = [
    { label: "Virtual host", cell: (row) => html`<a class="name" href=${href(vhostPath(row.vhost))}>${row.vhost}</a>` },
    { label: "Exchange", cell: (row) => html`<span class="name" title=${row.exchange}>${row.exchange}</span><span class="narrow"><span>write <code>${row.write}</code></span><span>read <code>${row.read}</code></span></span>` },
    { label: "Write", class: "mid", cell: (row) => html`<code class="name" title=${row.write}>${row.write}</code>` },
    { label: "Read", class: "mid", cell: (row) => html`<code class="name" title=${row.read}>${row.read}</code>` },
    {
      label: "Act", class: "acts-column",
      cell: (row) => html`<${Act} act="admin.setTopicPermission" what=${{ user, vhost: row.vhost, present: row }} label=${`Change the topic permission for ${row.exchange} in ${row.vhost}`}>Change<//>
        <${Act} act="admin.clearTopicPermission" what=${row} label=${`Remove the topic permission for ${row.exchange} in ${row.vhost}`}>Remove<//>`,
    },
  ];
  return html`<${Card} title="Topic permissions" id="topics" extra=${html`<${Pill}>${rows?.length ?? 0}<//>
    <${Act} act="admin.setTopicPermission" what=${{ user, vhosts }}>Limit routing keys<//>`}>
    ${rows?.length
      ? html`<${Table} columns=${columns} rows=${rows} caption="Topic permissions" rowKey=${(row) => `${row.vhost}\n${row.exchange}`} />`
      : html`<p class="none">Every routing key is allowed where the permissions allow the exchange.</p>`}
  <//>`;
}
