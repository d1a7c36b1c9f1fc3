dim n = 4 
dim m = 4
