"""Virtual hosts: exchanges, queues and the bindings between them."""
