from amqp_router.protocol.message cimport Message
from amqp_router.protocol.output cimport Output
from persistence.log.queue.queue_log cimport QueueLog
from vhosts.declared cimport Declared
from vhosts.publishing.ports cimport Listener, Run


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
    cdef public Credit shared
    cdef public Output output
    cdef public long long unacked
    cdef public long long timeout_ms
    cdef public Consumer following
    cdef public Consumer previous
    cdef public bint parked
    cpdef bint ready(self) except -1
    cpdef void wake(self)
    cpdef void deliver(self, Message message)
    cpdef void cancelled(self)


cdef class Host:
    cdef public str name
    cdef public Listener dead_letters


cdef class QueueHandle(Declared):
    cdef public Host vhost
    cdef public object exclusive_owner  # a connection, compared by identity alone
    cdef public str incarnation
    cdef public QueueLog log
    cdef public bint logs_all
    cdef public long long ack_timeout_ms
    cdef public dict consumers
    cdef public long long unacked_count
    cpdef bint publish(self, Message message) except -1
    cpdef void await_durable(self, Run run)
    cpdef Py_ssize_t deliver_due(self, Py_ssize_t budget) except -1
    cpdef bint has_due(self)
    cpdef bint has_new(self)
    cpdef bint is_returning(self)
    cpdef void settle(self, Message message, int kind)
    cpdef void touch(self)
    cpdef void wake(self, Consumer consumer)
    cpdef Message get(self, bint no_ack)
    cpdef void requeue(self, Message message)
    cpdef void begin_return(self)
    cpdef void end_return(self)
    cpdef put_aside(self, Message message)
