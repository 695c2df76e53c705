cimport cython

from amqp_router.protocol.message cimport Message
from amqp_router.protocol.output cimport Output
from vhosts.queues.destination cimport Asker, Destination


cdef class Credit:
    cdef public long long limit
    cdef public long long available
    cpdef void change(self, long long limit)
    cpdef void stop(self)


cdef class Consumer:
    cdef public str tag
    cdef public bint no_ack
    cdef public bint exclusive
    cdef public long long priority
    cdef public object arguments  # a dict, or a KeptTable
    cdef public QueueHandle queue
    cdef public long long credit
    cdef public long long octets
    cdef public Credit shared
    cdef public Output output
    cdef public long long taken
    cdef public long long finished
    cdef public long long timeout_ms
    cdef public Consumer following
    cdef public Consumer previous
    cdef public bint parked
    cdef public bint holds
    cpdef bint ready(self) except -1
    cpdef void wake(self)
    cpdef void deliver(self, Message message)
    cpdef void cancelled(self)


cdef class QueueHandle(Destination):
    cdef public long long ack_timeout_ms
    cdef public dict consumers
    cdef public long long held_count
    cdef public long long unacked_count
    cdef public long long unacked_bytes
    cdef public unsigned long long publish_total
    cdef public unsigned long long deliver_total
    cdef public unsigned long long deliver_no_ack_total
    cdef public unsigned long long get_total
    cdef public unsigned long long get_no_ack_total
    cdef public unsigned long long get_empty_total
    cdef public unsigned long long redeliver_total
    cdef public unsigned long long ack_total
    cpdef void touch(self)
    cpdef Py_ssize_t take_turn(self, Py_ssize_t budget) except -1
    cpdef Py_ssize_t deliver_due(self, Py_ssize_t budget) except -1
    cpdef bint has_due(self)
    cpdef bint has_new(self)
    cpdef consume(self, Consumer consumer, Asker asker)
    cpdef cancel(self, Consumer consumer, Asker asker)
    cpdef void grant(self, Consumer consumer, long long messages, long long octets)
    cpdef void wake(self, Consumer consumer)
    cpdef get(self, bint no_ack, Asker asker)
    cpdef count(self, Asker asker)
    cpdef note_holder(self, Consumer holder)
    cpdef void less_held(self, Consumer holder, long long count)
    cpdef void settle(self, Message message, int kind)
    @cython.locals(index=Py_ssize_t)
    cpdef void settle_range(self, list messages, int kind)
    cpdef void requeue(self, Message message)
    cpdef void return_unsent(self, Message message)
    cpdef void begin_return(self)
    cpdef void end_return(self)
    cpdef bint is_returning(self)
    cpdef put_aside(self, Message message)
