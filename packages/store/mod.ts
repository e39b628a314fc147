/** x @module */
