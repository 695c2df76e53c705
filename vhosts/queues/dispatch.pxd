cimport cython

from vhosts.queues.consumers cimport Consumer


cdef class Dispatch:
    cdef public Consumer turn
    cdef public bint exclusive
    cdef public dict leaving
    @cython.locals(first=Consumer, last=Consumer)
    cpdef void link(self, Consumer consumer)
    @cython.locals(following=Consumer, previous=Consumer)
    cpdef void unlink(self, Consumer consumer)
    cpdef void park(self, Consumer consumer)
    cpdef void unpark(self, Consumer consumer)
    cpdef void remove(self, Consumer consumer)
