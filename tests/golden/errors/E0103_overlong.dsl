include "À¯etc"
dim n = í €
