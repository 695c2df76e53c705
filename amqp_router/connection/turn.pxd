cimport cython

cdef unsigned int _IN
cdef unsigned int _OUT
cdef unsigned int _READ
cdef unsigned int _WRITE


cdef class Turn:
    cdef public double end
    cdef public double line_end
    cdef public Py_ssize_t served
    cdef public Py_ssize_t skipped
    cdef public Py_ssize_t events_max
    cdef public object call_soon
    cdef object _line
    cdef bint _serves
    cdef object _enter
    cdef object _unexpected
    cpdef void begin(self)
    cpdef void is_over(self)
    cpdef bint may_read(self)
    cdef void _call(self)


cdef class Gate:
    cdef Turn _turn
    cdef object _socket
    cdef object _read
    cdef object _call_soon
    cdef bint _waits


cdef class Poll:
    cdef public Turn turn
    cdef object _ask
    cdef dict _keys
    @cython.locals(turn=Turn, seconds=double, event=cython.uint, events=cython.uint, ready=list)
    cpdef list select(self, timeout=*)
