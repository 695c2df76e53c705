cimport cython

from amqp_router.protocol.tick cimport Tick
from persistence.log.queue.queue_log cimport QueueLog
from persistence.memory cimport MemoryBudget
from vhosts.queues cimport state as states
from vhosts.queues.contents cimport Contents
from vhosts.queues.destination cimport Asker
from vhosts.queues.dispatch cimport Dispatch
from vhosts.publishing.ports cimport Run
from vhosts.queues.handle cimport Consumer, QueueHandle
from vhosts.queues.ready.order cimport NodePort, ReadyOrder
from vhosts.queues.receipts cimport Receipts


cdef class StandingQueue(QueueHandle):
    cdef public NodePort services
    cdef public Tick tick
    cdef public Contents contents
    cdef public MemoryBudget budget
    cdef public ReadyOrder ready
    cdef public Dispatch dispatch
    cdef public Receipts receipts
    cdef public bint dirty
    cdef public bint stalled
    cdef public long long remembered
    @cython.locals(log=QueueLog)
    cpdef count_remembered(self)
    @cython.locals(log=QueueLog)
    cpdef void await_durable(self, Run run)
    cpdef void touch(self)
    cpdef add_consumer(self, Consumer consumer)
    cpdef cancel(self, Consumer consumer, Asker asker)
    cpdef void grant(self, Consumer consumer, long long messages, long long octets)
    cpdef void wake(self, Consumer consumer)
    cpdef long long message_count(self) except? -1
    cdef _heed_trouble(self)
