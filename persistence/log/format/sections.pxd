# Compiled types of sections.py.

cimport cython

from amqp_router.protocol._buf cimport Buf
from amqp_router.protocol.message cimport Extras


@cython.locals(sources=Buf, each=Extras, index=Py_ssize_t, entry=tuple)
cpdef tuple pack_sections(list extras)
cdef int _put_source(Buf out, unsigned long record, Extras each) except -1
