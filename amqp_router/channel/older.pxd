cimport cython

cdef Py_ssize_t _SPARSE
cdef Py_ssize_t _PLACES_MIN


cdef class Block:
    cdef public unsigned long long first
    cdef public list messages
    cdef public list owners
    cdef public list tags
    cdef public Py_ssize_t lowest
    cdef public Py_ssize_t live
    @cython.locals(place="unsigned long long")
    cpdef Py_ssize_t find(self, unsigned long long tag) except -2
    cpdef unsigned long long tag_at(self, Py_ssize_t place) except? 0
    cpdef Py_ssize_t find_lowest(self) except -1
    @cython.locals(place=Py_ssize_t)
    cpdef Py_ssize_t run_end(self, Py_ssize_t start, unsigned long long last, long long limit) except -1
    @cython.locals(size=Py_ssize_t, place=Py_ssize_t, tags=list, messages=list, owners=list)
    cdef void thin(self)


cdef class OlderDeliveries:
    cdef public Py_ssize_t count
    cdef public list blocks
    cdef public list firsts
    cpdef add(self, unsigned long long first, list messages, list owners)
    @cython.locals(index=Py_ssize_t, block=Block)
    cpdef bint holds(self, unsigned long long tag) except -1
    @cython.locals(index=Py_ssize_t, block=Block)
    cpdef tuple take(self, unsigned long long tag)
    @cython.locals(block=Block, place=Py_ssize_t)
    cpdef tuple take_lowest(self, unsigned long long last)
    @cython.locals(block=Block, place=Py_ssize_t)
    cpdef lowest_owner(self, unsigned long long last)
    @cython.locals(block=Block, start=Py_ssize_t, end=Py_ssize_t, place=Py_ssize_t, run=list)
    cpdef list take_run(self, unsigned long long last, long long limit)
    @cython.locals(block=Block)
    cdef tuple _take_from(self, Py_ssize_t index, Py_ssize_t place)
    cdef void _took(self, Py_ssize_t index, Block block, Py_ssize_t count)
