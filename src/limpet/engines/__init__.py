"""Where does a cell's function run: in this process, or in others?"""
