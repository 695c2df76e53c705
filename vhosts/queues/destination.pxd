from amqp_router.protocol.message cimport Message
from persistence.log.queue.queue_log cimport QueueLog
from vhosts.declared cimport Declared
from vhosts.publishing.ports cimport Listener, Run
from vhosts.queues cimport state as states


cdef class Burials(Listener):
    cpdef bint is_full(self) except -1
    cpdef wait(self, queue)
    cpdef add(self, queue, Message message, str reason)


cdef class Host:
    cdef public str name
    cdef public Burials dead_letters


cdef class Asker:
    cpdef bint got(self, Message message, long long left) except -1
    cpdef counted(self, long long ready, long long consumers)
    cpdef bint started(self) except -1
    cpdef ended(self)


cdef class Destination(Declared):
    cdef public Host vhost
    cdef public object exclusive_owner  # a connection, compared by identity alone
    cdef public str incarnation
    cdef public QueueLog log
    cdef public bint logs_all
    cdef public bint counts_returns
    cdef public int state
    cdef public str reason
    cpdef bint publish(self, Message message) except -1
    cpdef void await_durable(self, Run run)
    cpdef long long message_count(self) except? -1
