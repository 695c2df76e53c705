"""``python -m amqp_router``: the command ``amqp-router`` where its script is not on the path."""

import sys

from amqp_router.main import main

if __name__ == "__main__":
    sys.exit(main())
