# Compiled types of ports.py.

from amqp_router.protocol.message cimport Message


cdef class Listener:
    cpdef published(self, unsigned long long number, unsigned int outcome, Message message)
    cpdef run_done(self, Run run)


cdef class Flow:
    cdef public long long limit
    cpdef void add(self, long long size)
    cpdef void remove(self, long long size)


cdef class Run:
    cdef public unsigned long long first
    cdef public unsigned long long last
    cdef public unsigned long long bytes
    cdef public long remaining
    cdef public bint failed
    cdef public Listener listener
    cpdef void settled(self, bint failed)
