// The shared worker: all tabs of this browser share its one stream of events.
import { Hub } from "./hub.mjs";

const hub = new Hub({ makeSource: (address) => new EventSource(address) });

addEventListener("connect", ({ ports: [port] }) => {
  const { receive } = hub.connect((message) => port.postMessage(message));
  port.onmessage = (event) => receive(event.data);
});
