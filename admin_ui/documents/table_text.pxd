# Compiled types of table_text.py.

cimport cython

from amqp_router.protocol.fields cimport outer_field
from amqp_router.protocol.nested cimport value_end

cdef int _STEP
cdef Py_ssize_t _STEP_OCTETS
cdef int _DEPTH_MAX


cdef class TableText:
    cdef bytes _data
    cdef Py_ssize_t _position
    cdef Py_ssize_t _end
    cdef bint _is_first
    cdef set _names
    cdef list _outer
    cdef list _made
    cdef list _begun
    @cython.locals(left=int, limit=Py_ssize_t)
    cpdef bint go_on(self) except -1
    cpdef bytes json(self)
    cdef _finish_piece(self)
    @cython.locals(data=bytes, at=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, name=bytes, names=set, is_new=bint, begun=list, tag=int)
    cdef _write_next(self)
