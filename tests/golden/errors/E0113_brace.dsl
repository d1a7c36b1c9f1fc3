{ dim n = 4 }
