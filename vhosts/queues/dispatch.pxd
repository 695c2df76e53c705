cimport cython

from vhosts.queues.handle cimport Consumer


cdef class Dispatch:
    cdef public Consumer turn
    cdef public long long priority
    cdef public list lower
    cdef public bint is_single
    cdef public Consumer active
    cdef public bint exclusive
    cdef public dict leaving
    cpdef void add(self, Consumer consumer)
    cpdef void remove(self, Consumer consumer, dict others)
    @cython.locals(first=Consumer)
    cpdef void link(self, Consumer consumer)
    @cython.locals(index=Py_ssize_t, priority="long long", first=Consumer)
    cdef void _link_lower(self, Consumer consumer)
    @cython.locals(following=Consumer, previous=Consumer)
    cpdef void unlink(self, Consumer consumer)
    cdef void _unlink_lower(self, Consumer consumer, Consumer following)
    cpdef void park(self, Consumer consumer)
    cpdef void unpark(self, Consumer consumer)


@cython.locals(last=Consumer)
cdef void _join(Consumer consumer, Consumer first)
