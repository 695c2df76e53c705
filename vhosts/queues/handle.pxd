from amqp_router.protocol.message cimport Message
from persistence.log.queue.queue_log cimport QueueLog
from vhosts.publishing.ports cimport Run


cdef class QueueHandle:
    cdef public str name
    cdef public object policy
    cdef public object vhost
    cdef public bint durable
    cdef public object exclusive_owner
    cdef public bint auto_delete
    cdef public object arguments
    cdef public str incarnation
    cdef public bint internal
    cdef public bint deleted
    cdef public unsigned long long definition_rev
    cdef public QueueLog log
    cdef public bint logs_all
    cdef public dict consumers
    cdef public long long unacked_count
    cpdef bint publish(self, Message message) except -1
    cpdef void await_durable(self, Run run)
    cpdef Py_ssize_t deliver_due(self, Py_ssize_t budget) except -1
    cpdef bint has_due(self)
    cpdef bint has_new(self)
    cpdef bint is_returning(self)
    cpdef void settle(self, Message message, int kind)
