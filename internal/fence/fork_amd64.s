#include "textflag.h"

// vfork is like rawVforkSyscall of package syscall: the child overwrites the stack below the caller, so the
// return address is kept in a register meanwhile.

// func vfork(trap, a1, a2, a3 uintptr) (pid, errno uintptr)
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-48
	MOVQ a1+8(FP), DI
	MOVQ a2+16(FP), SI
	MOVQ a3+24(FP), DX
	MOVQ $0, R10
	MOVQ $0, R8
	MOVQ $0, R9
	MOVQ trap+0(FP), AX
	POPQ R12
	SYSCALL
	PUSHQ R12
	CMPQ AX, $0xfffffffffffff001
	JLS  made
	MOVQ $-1, pid+32(FP)
	NEGQ AX
	MOVQ AX, errno+40(FP)
	RET
made:
	MOVQ AX, pid+32(FP)
	MOVQ $0, errno+40(FP)
	RET
