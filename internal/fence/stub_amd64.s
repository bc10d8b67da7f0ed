#include "go_asm.h"
#include "textflag.h"

// The program of stub.go for amd64: see there what it does. It runs without Go's runtime, as a process of its
// own: it has only the stack that the kernel made, with argc, argv and envp, and keeps what it needs in
// registers:
//
//	R12 argv   R13 envp   R14 the capability that comes next   R15 those to be dropped

// func codeStart() unsafe.Pointer
TEXT ·codeStart(SB), NOSPLIT, $0-8
	LEAQ code<>(SB), AX
	MOVQ AX, ret+0(FP)
	RET

TEXT code<>(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVQ (SP), AX
	LEAQ 8(SP), R12
	LEAQ 16(SP)(AX*8), R13

	// fcntl(3, F_SETFD, FD_CLOEXEC), and of 4
	MOVQ $72, AX
	MOVQ $3, DI
	MOVQ $2, SI
	MOVQ $1, DX
	SYSCALL
	MOVQ $72, AX
	MOVQ $4, DI
	SYSCALL

	// prctl(PR_CAPBSET_DROP, c) for each capability to be dropped; without the right to do so there is none to
	// be gained
	MOVQ $(const_undoing), R15
	XORQ R14, R14
next:
	BTQ  R14, R15
	JCC  kept
	MOVQ $157, AX
	MOVQ $24, DI
	MOVQ R14, SI
	XORQ DX, DX
	XORQ R10, R10
	XORQ R8, R8
	SYSCALL
kept:
	INCQ R14
	CMPQ R14, $64
	JNE  next

	// prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL); a kernel before 4.3 has none
	MOVQ $157, AX
	MOVQ $47, DI
	MOVQ $4, SI
	XORQ DX, DX
	XORQ R10, R10
	XORQ R8, R8
	SYSCALL

	// capget and capset, with a header at SP and the sets (effective, permitted, inheritable, of 32 each) at
	// 8(SP)
	SUBQ $32, SP
	MOVQ $0x20080522, AX
	MOVQ AX, (SP)
	MOVQ $125, AX
	MOVQ SP, DI
	LEAQ 8(SP), SI
	SYSCALL
	CMPQ AX, $0
	JNE  failed
	NOTQ R15
	ANDL R15, 8(SP)
	ANDL R15, 12(SP)
	ANDL R15, 16(SP)
	SHRQ $32, R15
	ANDL R15, 20(SP)
	ANDL R15, 24(SP)
	ANDL R15, 28(SP)
	MOVQ $126, AX
	MOVQ SP, DI
	LEAQ 8(SP), SI
	SYSCALL
	CMPQ AX, $0
	JNE  failed

	// prctl(PR_SET_NO_NEW_PRIVS, 1)
	MOVQ $157, AX
	MOVQ $38, DI
	MOVQ $1, SI
	XORQ DX, DX
	XORQ R10, R10
	XORQ R8, R8
	SYSCALL
	CMPQ AX, $0
	JNE  failed

	// landlock_restrict_self(3, 0)
	MOVQ $446, AX
	MOVQ $3, DI
	XORQ SI, SI
	SYSCALL
	CMPQ AX, $0
	JNE  failed

	// seccomp(SECCOMP_SET_MODE_FILTER, 0, the filter)
	MOVQ $317, AX
	MOVQ $1, DI
	XORQ SI, SI
	MOVQ $(const_filterAt), DX
	SYSCALL
	CMPQ AX, $0
	JNE  failed

	// execve(argv[0], argv + 1, envp)
	MOVQ $59, AX
	MOVQ (R12), DI
	LEAQ 8(R12), SI
	MOVQ R13, DX
	SYSCALL
	NEGQ AX
	JMP  told

failed:
	// The error of entering is told apart from that of execve.
	NEGQ AX
	ORQ  $0x10000, AX
told:
	// write(4, the error, 4)
	MOVQ AX, (SP)
	MOVQ $1, AX
	MOVQ $4, DI
	MOVQ SP, SI
	MOVQ $4, DX
	SYSCALL
	// exit_group(127)
	MOVQ $231, AX
	MOVQ $127, DI
	SYSCALL
	INT  $3

// The end of the program.
TEXT ·end(SB), NOSPLIT|NOFRAME, $0
	RET

// func codeEnd() unsafe.Pointer
TEXT ·codeEnd(SB), NOSPLIT, $0-8
	LEAQ ·end(SB), AX
	MOVQ AX, ret+0(FP)
	RET
