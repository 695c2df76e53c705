cimport cython

from amqp_router.protocol.message cimport Message

cdef Py_ssize_t _RING_PLACES
cdef Py_ssize_t _PLACES_MIN


cdef class Ring:
    cdef public list places
    cdef public Py_ssize_t start
    cdef public Py_ssize_t count
    cdef public Py_ssize_t room
    cdef public list behind
    @cython.locals(places=list)
    cpdef Py_ssize_t push(self, Message message) except -1
    @cython.locals(size=Py_ssize_t, last=list)
    cdef Py_ssize_t _push_more(self, Message message) except -1
    @cython.locals(places=list, size=Py_ssize_t, start=Py_ssize_t)
    cdef _grow(self)
    @cython.locals(message=Message)
    cpdef Message head(self)
    @cython.locals(places=list)
    cpdef void take(self)
    @cython.locals(behind=list, places=list, size=Py_ssize_t)
    cdef _next_list(self)
    @cython.locals(places=list, found=list, message=Message, index=Py_ssize_t)
    cpdef list first(self, Py_ssize_t count)
